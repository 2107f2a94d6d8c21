"""The web console in a real browser: how soon it is there, and whether a large tree scrolls.

    bench/run console [--runs 9] [--workspaces 100000] [--directory DIRECTORY]

Prints when Chromium paints the page for the first time, with and without a sign-in, with an empty
cache and again; how long frames take while a tree of workspaces of a real server is scrolled from
end to end and filtered; and the CPU that the server spends on ten open consoles in which nothing
happens. `--directory` keeps the server with its workspaces for the next run.
"""

from __future__ import annotations

import argparse
import asyncio
import pathlib
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from target import load as load_target
from target import processes_cpu
from workspaces import bench_of, create_all

from pykcp.testing.client import TestClient
from pykcp.testing.server import ServerProcess

_TOKEN = "bench-token"  # of a server that exists for this run
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync")
_CROWD = "root:crowd"
_STEPS = 200
_IDLE_SECONDS = 10
_SIGNED_IN = f"sessionStorage.setItem('kcp.token', '{_TOKEN}')"
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
_TREE = """new MutationObserver(() => {
  if (!window.treeShown && document.querySelector('.tree-row')) window.treeShown = performance.now();
}).observe(document, {childList: true, subtree: true})"""
_FRAMES = """async ([selector, steps]) => {
  const rows = document.querySelector(selector);
  const end = rows.scrollHeight - rows.clientHeight;
  const frames = [];
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  let last = await frame();
  for (let i = 0; i <= steps; i++) {
    rows.scrollTop = (end * i) / steps;
    const now = await frame();
    frames.push(now - last);
    last = now;
  }
  return frames;
}"""
_FRAMES_DURING = """async (text) => {
  const input = document.querySelector('.tree input');
  const frames = [];
  let last = await new Promise((resolve) => requestAnimationFrame(resolve));
  for (let i = 1; i <= text.length; i++) {
    input.value = text.slice(0, i);
    input.dispatchEvent(new Event('input'));
    for (let n = 0; n < 6; n++) {
      const now = await new Promise((resolve) => requestAnimationFrame(resolve));
      frames.push(now - last);
      last = now;
    }
  }
  return frames;
}"""


class Console:
    def __init__(self, browser: Browser, server: ServerProcess) -> None:
        self._browser, self.server = browser, server
        self.url = f"https://127.0.0.1:{server.port}/console/"

    def visitor(self, *, is_signed_in: bool = True) -> BrowserContext:
        context = self._browser.new_context(ignore_https_errors=True)
        context.add_init_script(_TREE)
        if is_signed_in:
            context.add_init_script(_SIGNED_IN)
        return context

    def open(self, context: BrowserContext, place: str = "") -> Page:
        page = context.new_page()
        page.goto(self.url + place)
        page.locator(".tree-row, input[name=token]").first.wait_for(timeout=60_000)
        page.wait_for_function(f"{_PAINT} > 0")
        return page


def _paint(console: Console, runs: int) -> None:
    for title, is_signed_in in (("sign-in page", False), ("signed in", True)):
        cold: list[float] = []
        warm: list[float] = []
        tree: list[float] = []
        for _ in range(runs):
            context = console.visitor(is_signed_in=is_signed_in)
            for times in (cold, warm):
                page = console.open(context)
                times.append(page.evaluate(_PAINT))
                if is_signed_in and times is cold:
                    tree.append(page.evaluate("window.treeShown"))
                page.close()
            context.close()
        print(f"first contentful paint, {title:14} {_spread(cold)}; cached {_spread(warm)}")
        if tree:
            print(f"the tree is shown                      {_spread(tree)}")


def _spread(times: list[float]) -> str:
    return f"{statistics.median(times):4.0f} ms ({min(times):.0f} to {max(times):.0f})"


def _tree(console: Console, count: int) -> None:
    context = console.visitor()
    began = time.perf_counter()
    page = console.open(context, f"#/w/{_CROWD}:w{0:06}")
    page.wait_for_function(
        "n => Number(document.querySelector('.tree .rows').dataset.rows) > n",
        arg=count,
        timeout=170_000,
    )
    print(f"{count} workspaces are in the tree after {time.perf_counter() - began:6.1f} s")
    _print_frames("scrolled from end to end", page.evaluate(_FRAMES, [".tree .rows", _STEPS]))
    _print_frames("filtered", page.evaluate(_FRAMES_DURING, f"w{count - 1:06}"))
    context.close()


def _print_frames(title: str, frames: list[float]) -> None:
    steps = statistics.quantiles(frames, n=100)
    print(f"{title:26} frames: {steps[49]:.0f} ms, p95 {steps[94]:.0f}, longest {max(frames):.0f}")


def _idle(console: Console, pages: int = 10) -> None:
    time.sleep(3)  # until the start is over
    alone = _cpu(console.server.pid)
    contexts = [console.visitor() for _ in range(pages)]
    for context in contexts:
        console.open(context, "#/w/root/r/tenancy.kcp.io/v1alpha1/workspaces")
    time.sleep(3)  # until they are at rest
    print(
        f"CPU of the server in {_IDLE_SECONDS} s: {alone * 1000:.0f} ms alone, "
        f"{_cpu(console.server.pid) * 1000:.0f} ms with {pages} consoles"
    )
    for context in contexts:
        context.close()


def _cpu(pid: int) -> float:
    before = processes_cpu([pid])
    time.sleep(_IDLE_SECONDS)
    return processes_cpu([pid]) - before


async def _fill(server: ServerProcess, count: int) -> None:
    target = load_target(str(server.kubeconfig), "shard-base", "", str(server.pid))
    async with bench_of(target) as bench:
        await bench.create("root", _CROWD.partition(":")[2], "organization")
        await bench.wait_ready("root", {_CROWD.partition(":")[2]})
        await create_all(bench, _CROWD, [f"w{number:06}" for number in range(count)])


def _has_crowd(client: TestClient) -> bool:
    return client.get("/apis/tenancy.kcp.io/v1alpha1/workspaces/crowd").status == 200


@contextmanager
def _server(directory: str) -> Iterator[ServerProcess]:
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(directory or temporary)
        root.mkdir(parents=True, exist_ok=True)
        tokens = root / "tokens.csv"
        tokens.write_text(f'{_TOKEN},bench,1,"system:masters"\n')
        process = ServerProcess(root / ".kcp", [f"--token-auth-file={tokens}"])
        kept = root / "port"  # another one would change the URL of every workspace
        process.port = int(kept.read_text()) if kept.exists() else 0
        process.start()
        kept.write_text(str(process.port))
        try:
            yield process
        finally:
            process.stop()


def _options() -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--workspaces", type=int, default=100_000)
    parser.add_argument("--directory", default="")
    parser.add_argument("--only", choices=("fill", "paint", "tree", "idle"), default="")
    return parser.parse_args()


def main() -> None:
    options = _options()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("there is no chromium here")
    with _server(options.directory) as server:
        is_filled = _has_crowd(server.client(cluster="root"))
        if options.only in ("", "fill", "tree") and options.workspaces and not is_filled:
            asyncio.run(_fill(server, options.workspaces))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=list(_FLAGS))
            console = Console(browser, server)
            if options.only in ("", "paint"):
                _paint(console, options.runs)
            if options.only in ("", "idle"):
                _idle(console)
            if options.only in ("", "tree") and options.workspaces:
                _tree(console, options.workspaces)
            browser.close()


if __name__ == "__main__":
    main()
