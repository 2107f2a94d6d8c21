"""Programs that we did not write: h2spec, curl, nghttp, h2load and Go's client.

Each is skipped where it is not installed.  `PYKCP_H2SPEC` may name the h2spec binary.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.client, pytest.mark.timeout(300)]

GO_CLIENT = r"""
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

func check(err error) {
	if err != nil {
		fmt.Println("FAIL", err)
		os.Exit(1)
	}
}

func expect(ok bool, format string, args ...any) {
	if !ok {
		check(fmt.Errorf(format, args...))
	}
}

func main() {
	base, dir := os.Args[1], os.Args[2]
	pem, err := os.ReadFile(dir + "/ca.crt")
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	pair, err := tls.LoadX509KeyPair(dir+"/foreign.crt", dir+"/foreign.key")
	check(err)
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}},
		ForceAttemptHTTP2: true,
	}
	client := &http.Client{Transport: transport}
	get := func(path string) (*http.Response, string) {
		res, err := client.Get(base + path)
		check(err)
		body, err := io.ReadAll(res.Body)
		check(err)
		res.Body.Close()
		return res, string(body)
	}

	res, body := get("/peer")
	expect(res.ProtoMajor == 2, "protocol %s", res.Proto)
	expect(body == "HTTP/2.0 127.0.0.1 1 True", "peer %q", body)

	var wait sync.WaitGroup
	for i := 0; i < 200; i++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for j := 0; j < 20; j++ {
				_, body := get(fmt.Sprintf("/slow?%d-%d", i, j))
				expect(body == "slow\n", "slow %q", body)
			}
		}()
	}
	wait.Wait()

	_, body = get("/parts?2000,1777")
	expect(len(body) == 2000*1777, "list of %d", len(body))

	sent := bytes.Repeat([]byte("0123456789"), 200_000)
	res, err = client.Post(base+"/echo", "text/plain", bytes.NewReader(sent))
	check(err)
	received, err := io.ReadAll(res.Body)
	check(err)
	expect(bytes.Equal(sent, received), "echo of %d", len(received))

	res, err = client.Post(base+"/echo", "text/plain", bytes.NewReader(bytes.Repeat(sent, 3)))
	check(err)
	expect(res.StatusCode == 413, "status %d", res.StatusCode)
	res.Body.Close()

	reader, writer := io.Pipe()
	res, err = client.Post(base+"/stream-echo", "text/plain", reader)
	check(err)
	for i := 0; i < 10; i++ {
		_, err = writer.Write([]byte{byte(i)})
		check(err)
		one := make([]byte, 1)
		_, err = io.ReadFull(res.Body, one)
		check(err)
		expect(one[0] == byte(i), "echo %d", one[0])
	}
	writer.Close()
	_, err = io.ReadAll(res.Body)
	check(err)

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, "GET", base+"/waits", nil)
	_, err = client.Do(request)
	expect(errors.Is(err, context.DeadlineExceeded), "waits: %v", err)

	res, err = client.Get(base + "/late-boom")
	check(err)
	_, err = io.ReadAll(res.Body)
	expect(err != nil, "broken answer taken for complete")

	_, body = get("/closes")
	expect(body == "bye\n", "closes %q", body)
	for body = ""; body != "HTTP/2.0 127.0.0.1 1 True"; { // until it has heard of the GOAWAY
		_, body = get("/peer")
	}
	fmt.Println("OK")
}
"""


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


async def run(*command: str, cwd: Path | None = None) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=cwd
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode(errors="replace")


@pytest.mark.parametrize("plain", [False, True], ids=["TLS", "plain"])
async def test_h2spec(serve: Any, plain: bool):
    """All of h2spec: the generic tests, RFC 9113 and HPACK."""
    h2spec = os.environ.get("PYKCP_H2SPEC") or program("h2spec")
    listener = await serve(plain=plain)
    where = ["-h", "127.0.0.1", "-p", str(listener.port), *([] if plain else ["-t", "-k"])]
    code, output = await run(h2spec, *where, "--strict")
    assert code == 0, output[-4000:]
    assert ", 0 skipped, 0 failed" in output


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
async def test_curl(serve: Any, certificates: Any, version: str):
    """GET, HEAD, upload, large download, chunked upload, client certificate."""
    listener = await serve()
    directory = certificates.directory
    payload = directory / "payload"
    payload.write_bytes(bytes(range(256)) * 4000)

    async def curl(path: str, *options: str) -> str:
        url = f"https://127.0.0.1:{listener.port}{path}"
        ca_file = str(directory / "ca.crt")
        command = (program("curl"), "-sS", version, "--cacert", ca_file, "-m", "20")
        code, output = await run(*command, *options, url)
        assert code == 0, output
        return output

    assert await curl("/") == "hello\n"
    assert "content-length: 6" in await curl("/", "-I")
    sizes = ["-o", os.devnull, "-w", "%{http_code} %{size_download}"]
    assert await curl("/parts?5000,1500", *sizes) == "200 7500000"
    assert await curl("/echo", *sizes, "--data-binary", f"@{payload}") == "200 1024000"
    assert await curl("/stream", "-T", str(payload)) == "1024000"
    certificate = ["--cert", str(directory / "client.crt"), "--key", str(directory / "client.key")]
    assert (await curl("/peer", *certificate)).endswith(" 1 True")


async def test_nghttp(serve: Any):
    """Several requests on one connection, uploads, and a look at the frames."""
    nghttp = program("nghttp")
    listener = await serve()
    url = f"https://127.0.0.1:{listener.port}"
    code, output = await run(nghttp, "-nv", f"{url}/", f"{url}/slow", f"{url}/parts?100,10000")
    assert code == 0, output
    assert output.count(":status: 200") == 3


async def test_h2load(serve: Any, hello: Any):
    """Ten thousand requests, a hundred at a time: every one is answered."""
    h2load = program("h2load")
    listener = await serve()
    where = f"https://127.0.0.1:{listener.port}/"
    code, output = await run(h2load, "-n", "10000", "-c", "10", "-m", "10", where)
    assert code == 0, output
    assert "10000 succeeded, 0 failed, 0 errored" in output


async def test_go_client(serve: Any, certificates: Any, hello: Any, tmp_path: Path):
    """Go's net/http, as every Kubernetes client uses it, with a certificate nobody knows."""
    go = program("go")
    source = tmp_path / "goclient"
    source.mkdir()
    (source / "main.go").write_text(GO_CLIENT)
    (source / "go.mod").write_text("module goclient\n\ngo 1.22\n")
    code, output = await run(go, "build", "-o", "client", ".", cwd=source)
    assert code == 0, output
    listener = await serve()
    url = f"https://127.0.0.1:{listener.port}"
    code, output = await run(str(source / "client"), url, str(certificates.directory))
    assert (code, output) == (0, "OK\n")
    await hello.wait_for("cancelled")
