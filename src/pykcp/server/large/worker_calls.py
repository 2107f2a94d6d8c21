"""Jobs of worker processes on behalf of requests: their failures as clients see them."""

from __future__ import annotations

from typing import Any

from pykcp.aio.costs import payer
from pykcp.machinery.status import InternalError, RequestEntityTooLarge, Timeout
from pykcp.workers.pool import JobTooLarge, JobTooLong, WorkerDied, WorkerPool


async def compute(pool: WorkerPool, function: str, *args: Any, tenant: str) -> Any:
    """The result of `module:function`; a StatusError if it takes too much time or memory.

    Jobs of a request take turns by account; `tenant` is for jobs outside of requests.
    """
    try:
        return await pool.run(function, *args, tenant=payer().tenant or tenant)
    except JobTooLong as error:
        seconds = round(pool.settings.job_seconds)
        raise Timeout(f"the request took more than {seconds} seconds of computation") from error
    except JobTooLarge as error:
        raise RequestEntityTooLarge(
            "the request needs more memory than the server allows for one request"
        ) from error
    except WorkerDied as error:
        raise InternalError("the worker process of the request ended, try again") from error
