"""Small programs that builds in the sandbox compile and test, and the toolchains for them."""

import platform
import subprocess
from pathlib import Path

from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.protocol import SandboxReport
from agentjobs_worker.sandbox.seccomp import filter_program
from agentjobs_worker.sandbox.syscalls import ARCHITECTURES
from tests.support.sandbox import SandboxHarness, unused_uid_base

C_PROGRAM = """
#include <pthread.h>
#include <stdio.h>
static void *say(void *x) { puts("built"); return x; }
int main(void) { pthread_t t; pthread_create(&t, 0, say, 0); return pthread_join(t, 0); }
"""
CPP_PROGRAM = """
#include <filesystem>
#include <iostream>
#include <thread>
int main() {
  std::thread([] { std::filesystem::copy("x.cpp", "copy.cpp"); }).join();
  std::cout << "built\\n";
}
"""
CMAKE = """
cmake_minimum_required(VERSION 3.10)
project(x C CXX)
enable_testing()
find_package(Threads)
add_executable(x x.cpp)
target_link_libraries(x Threads::Threads)
add_test(NAME x COMMAND x WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
"""
RUST_MANIFEST = '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n'
RUST_PROGRAM = """
use std::{fs, net, process, thread};
pub fn run() -> u32 {
    let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = thread::spawn(move || net::TcpStream::connect(address).unwrap());
    listener.accept().unwrap();
    client.join().unwrap();
    fs::copy("Cargo.toml", "copy.toml").unwrap();
    assert!(process::Command::new("true").status().unwrap().success());
    7
}
#[test]
fn it_runs() { assert_eq!(run(), 7); }
"""
GO_MODULE = "module x\n\ngo 1.19\n"
GO_PROGRAM = """package x

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
)

func TestRun(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	if response, err := http.Get(server.URL); err != nil || response.StatusCode != 404 {
		t.Fatal(err)
	}
	if err := os.WriteFile("file", []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("true").Run(); err != nil {
		t.Fatal(err)
	}
}
"""
JAVA_PROGRAM = """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.*;
import java.nio.file.*;
import java.util.concurrent.*;

public class Main {
  public static void main(String[] arguments) throws Exception {
    var server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
    server.createContext("/", exchange -> {
      exchange.sendResponseHeaders(200, 5);
      exchange.getResponseBody().write("built".getBytes());
      exchange.close();
    });
    server.start();
    var uri = URI.create("http://127.0.0.1:" + server.getAddress().getPort() + "/");
    var request = HttpRequest.newBuilder(uri).build();
    var body = HttpResponse.BodyHandlers.ofString();
    System.out.println(HttpClient.newHttpClient().send(request, body).body());
    var pool = Executors.newFixedThreadPool(4);
    pool.submit(() -> Files.list(Path.of(".")).count()).get();
    pool.shutdown();
    new ProcessBuilder("true").start().waitFor();
    System.gc();
    System.exit(0);
  }
}
"""
NODE_TESTS = """
const {test} = require("node:test"), {Worker} = require("worker_threads");
const {execFileSync} = require("child_process"), fs = require("fs"), http = require("http");
test("worker", () => new Promise(end => new Worker("1", {eval: true}).on("exit", end)));
test("child", () => execFileSync("true"));
test("files", () => {
  const watcher = fs.watch(".", () => {});
  fs.copyFileSync("run.test.js", "copy.js");
  watcher.close();
});
test("server", () => new Promise(end => {
  const server = http.createServer((_, response) => response.end("x")).listen(0, () =>
    http.get({port: server.address().port}, response => {
      response.resume().on("end", () => { server.close(); end(); });
    }));
}));
"""
POSTGRES = """
set -e
initdb -N -D data -A trust >initdb.log
cat >>data/postgresql.conf <<END
unix_socket_directories = '$PWD'
listen_addresses = '127.0.0.1'
min_parallel_table_scan_size = 0
fsync = off
END
pg_ctl -D data -w -l server.log start >/dev/null
createdb -h "$PWD" bench
pgbench -q -h "$PWD" -i bench 2>/dev/null
pgbench -h "$PWD" -c 4 -j 2 -t 20 bench >/dev/null 2>&1
psql -h 127.0.0.1 -qtA -c "select count(*) from pgbench_accounts" bench
pg_ctl -D data -m fast stop >/dev/null
"""


class Builds:
    """Runs builds in the sandbox, with the filter for a sandbox with or without a cgroup."""

    def __init__(self, base: Path, *, all_memory_is_counted: bool) -> None:
        sandbox = BubblewrapSandbox(unused_uid_base())
        architecture = ARCHITECTURES[platform.machine()]
        sandbox._seccomp = filter_program(architecture, all_memory_is_counted=all_memory_is_counted)
        self._harness = SandboxHarness(sandbox, base)

    async def run(
        self, script: str, files: dict[str, str], *toolchains: Path, timeout_seconds: float = 500
    ) -> SandboxReport:
        for name, content in files.items():
            (self._harness.workspace / name).write_text(content)
        directories = ":".join(str(toolchain / "bin") for toolchain in toolchains)
        report = await self._harness.shell(
            f"export PATH={directories}:$PATH; {script}",
            read_only=toolchains,
            timeout_seconds=timeout_seconds,
        )
        assert (report.exit_code, report.exceeded) == (0, None), report.last_lines
        return report


def rust_toolchain() -> Path:
    output = subprocess.run(
        ["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True
    )
    return Path(output.stdout.strip())


def go_toolchain() -> Path:
    output = subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True, check=True)
    return Path(output.stdout.strip())
