// What the client makes of services, proxies and networks that fail.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, describe, test } from "node:test";

import {
  AgentJobs,
  ApiError,
  ServiceUnreachable,
  UnexpectedResponse,
  WaitTimeout,
  collect,
} from "@agentjobs/client";

const REQUEST = { repo: "acme/shop", agent: "fixer" };
const JOB = { job_id: "job_1", status: "running", completed_at: null };
const DONE = { ...JOB, status: "completed", completed_at: "2026-01-31T09:30:04.512Z" };
const UNAVAILABLE = { error: { code: "unavailable", message: "Retry the request.", request_id: "req_1" } };

const servers = [];

/** A server that gives the next of `answers` to each request, and the last one to all further ones. */
async function serve(...answers) {
  const requests = [];
  const server = createServer((request, response) => {
    requests.push({ url: request.url, headers: request.headers });
    const answer = answers[Math.min(requests.length, answers.length) - 1];
    request.resume().on("end", () => answer(request, response));
  });
  servers.push(server);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const baseUrl = `http://127.0.0.1:${server.address().port}/v1`;
  return { requests, server, baseUrl, client: new AgentJobs({ baseUrl, apiKey: "ajk_test" }) };
}

function json(status, value, headers = {}) {
  return (_, response) => {
    response.writeHead(status, { "Content-Type": "application/json", ...headers });
    response.end(JSON.stringify(value));
  };
}

function html(status, headers = {}) {
  return (_, response) => {
    response.writeHead(status, { "Content-Type": "text/html", ...headers });
    response.end("<html><body>Sign in</body></html>");
  };
}

/** Writes the pieces one after the other; a null at the end cuts the connection. */
function stream(...pieces) {
  return async (_, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    for (const piece of pieces) {
      if (piece === null) response.destroy();
      else await new Promise((resolve) => response.write(piece, resolve));
    }
    response.end();
  };
}

const cut = (_, response) => response.destroy();
const silence = () => {};

// Most of the tests wait.
describe("the client", { concurrency: true }, () => {
  after(() => {
    for (const server of servers) {
      server.closeAllConnections();
      server.close();
    }
  });

  test("addresses and keys that cannot work are refused at once", () => {
    for (const baseUrl of ["", "jobs.example.com", "ftp://jobs.example.com", "http://user:pass@host/v1", undefined]) {
      assert.throws(() => new AgentJobs({ baseUrl, apiKey: "ajk_test" }), /is not a valid base URL/);
    }
    for (const apiKey of ["", "ajk_\n", "ajk_…", undefined]) {
      assert.throws(() => new AgentJobs({ baseUrl: "http://127.0.0.1:1", apiKey }), /API key/);
    }
    for (const option of ["timeoutMs", "maxRetries", "outageToleranceMs"]) {
      const options = { baseUrl: "http://127.0.0.1:1", apiKey: "ajk_test", [option]: NaN };
      assert.throws(() => new AgentJobs(options), new RegExp(`${option} must be a number`));
    }
  });

  test("the version may be missing in the address", async () => {
    const { client, baseUrl, requests } = await serve(json(200, JOB));
    await new AgentJobs({ baseUrl: `${baseUrl.slice(0, -3)}/`, apiKey: "ajk_test" }).jobs.get("job_1");
    await client.jobs.get("job_1");
    assert.deepEqual(requests.map(({ url }) => url), ["/v1/jobs/job_1", "/v1/jobs/job_1"]);
    assert.equal(requests[0].headers.authorization, "Bearer ajk_test");
  });

  test("an identifier never leads to another path", async () => {
    const error = { code: "job_not_found", message: "There is none." };
    const { client, requests } = await serve(json(404, { error }));
    for (const id of ["", ".", "..", undefined]) {
      await assert.rejects(client.jobs.get(id), /is not an identifier/);
    }
    await assert.rejects(client.jobs.get("../agents?x=1#"), { code: "job_not_found" });
    assert.deepEqual(requests.map(({ url }) => url), ["/v1/jobs/..%2Fagents%3Fx%3D1%23"]);
  });

  test("a service that does not listen is unreachable", async () => {
    const { baseUrl, server } = await serve(silence);
    server.close();
    const client = new AgentJobs({ baseUrl, apiKey: "ajk_test", maxRetries: 1 });
    await assert.rejects(client.me(), (error) => {
      assert.ok(error instanceof ServiceUnreachable);
      assert.match(error.message, /\/v1 cannot be reached: .*ECONNREFUSED/);
      return true;
    });
  });

  test("a service without TLS is named", async () => {
    const { baseUrl } = await serve(json(200, JOB));
    const client = new AgentJobs({ baseUrl: baseUrl.replace("http:", "https:"), apiKey: "ajk_test", maxRetries: 0 });
    await assert.rejects(client.me(), /it does not use TLS; try http/);
  });

  test("a page of a proxy is not taken for a response", async () => {
    for (const status of [200, 403, 404]) {
      const { client, requests } = await serve(html(status));
      const calls = [
        () => client.jobs.get("job_1"),
        () => client.jobs.logText("job_1"),
        () => client.jobs.diffText("job_1"),
        () => client.jobs.artifact("job_1", "report.html"),
        () => collect(client.jobs.logs("job_1")),
        () => collect(client.jobs.watch("job_1")),
        () => client.jobs.create(REQUEST),
      ];
      for (const call of calls) {
        await assert.rejects(call, (error) => {
          assert.ok(error instanceof UnexpectedResponse, String(error));
          assert.equal(error.status, status);
          assert.match(error.message, /check that the address is the service's and ends in \/v1/);
          return true;
        });
      }
      assert.equal(requests.length, calls.length);
    }
  });

  test("JSON of another service is not taken for a job", async () => {
    for (const value of [{ ok: true }, [], null, 1]) {
      const { client } = await serve(json(200, value));
      await assert.rejects(client.jobs.get("job_1"), /returned JSON without `job_id`/);
    }
  });

  test("a redirect is named and not followed", async () => {
    const { client, requests } = await serve(html(301, { Location: "https://jobs.example.com/v1/me" }));
    await assert.rejects(client.me(), /redirects to https:\/\/jobs\.example\.com\/v1\/me/);
    assert.equal(requests.length, 1);
  });

  test("an error of the service has its code, details and request id", async () => {
    const details = [{ field: "repo", message: "is required" }];
    const error = { code: "validation_failed", message: "Correct repo.", request_id: "req_7", details };
    const { client, requests } = await serve(json(422, { error }));
    await assert.rejects(client.jobs.create(REQUEST), (thrown) => {
      assert.ok(thrown instanceof ApiError);
      const { status, code, message, requestId, retryable } = thrown;
      assert.deepEqual([status, code, message, requestId, retryable], [422, error.code, error.message, "req_7", false]);
      assert.deepEqual(thrown.details, details);
      return true;
    });
    assert.equal(requests.length, 1);
  });

  test("a creation whose response was lost is repeated with the same key", async () => {
    const { client, requests } = await serve(cut, html(502), json(503, UNAVAILABLE), json(202, JOB));
    assert.equal((await client.jobs.create(REQUEST)).job_id, "job_1");
    assert.equal(requests.length, 4);
    const keys = new Set(requests.map(({ headers }) => headers["idempotency-key"]));
    assert.equal(keys.size, 1);
    assert.match([...keys][0], /^[0-9a-f]{32}$/);
  });

  test("Retry-After delays the next attempt", async () => {
    const { client } = await serve(json(503, UNAVAILABLE, { "Retry-After": "1" }), json(200, JOB));
    const startedAt = performance.now();
    await client.jobs.get("job_1");
    assert.ok(performance.now() - startedAt > 900);
  });

  test("Retry-After may be a date, and nonsense in it is ignored", async () => {
    const inAnHour = new Date(Date.now() + 3_600_000).toUTCString();
    const longAgo = "Thu, 01 Jan 1970 00:00:00 GMT";
    for (const [value, minimum, maximum] of [[inAnHour, 3_000_000, 3_600_000], [longAgo, 0, 0], ["soon", null, null]]) {
      const { baseUrl } = await serve(json(503, UNAVAILABLE, { "Retry-After": value }));
      const client = new AgentJobs({ baseUrl, apiKey: "ajk_test", maxRetries: 0 });
      await assert.rejects(client.me(), ({ retryAfterMs }) => retryAfterMs >= minimum && retryAfterMs <= maximum);
    }
  });

  test("a full queue is left to the caller", async () => {
    const error = { code: "queue_full", message: "Wait.", request_id: "req_1" };
    const { client, requests } = await serve(json(429, { error }, { "Retry-After": "60" }));
    await assert.rejects(client.jobs.create(REQUEST), { code: "queue_full", retryAfterMs: 60_000, retryable: false });
    assert.equal(requests.length, 1);
  });

  test("a cancellation whose response was lost succeeds", async () => {
    const error = { code: "job_finished", message: "The job is finished.", request_id: "req_1" };
    const { client } = await serve(cut, json(409, { error }), json(200, { ...DONE, status: "cancelled" }));
    assert.equal((await client.jobs.cancel("job_1")).status, "cancelled");
    const completed = await serve(cut, json(409, { error }), json(200, DONE));
    await assert.rejects(completed.client.jobs.cancel("job_1"), { code: "job_finished" });
  });

  test("a merge is repeated only if the service refused to begin", async () => {
    const pull = { id: "pull_1", state: "merged" };
    const refusing = await serve(json(503, UNAVAILABLE), json(200, pull));
    assert.equal((await refusing.client.pulls.merge("pull_1")).state, "merged");
    for (const answer of [cut, html(504)]) {
      const { client, requests } = await serve(answer, json(200, pull));
      await assert.rejects(client.pulls.merge("pull_1"), { retryable: true });
      assert.equal(requests.length, 1);
    }
  });

  test("a service that never responds is given up", async () => {
    const { baseUrl } = await serve(silence);
    const client = new AgentJobs({ baseUrl, apiKey: "ajk_test", timeoutMs: 50, maxRetries: 1 });
    await assert.rejects(client.me(), /did not respond in time/);
  });

  test("a signal ends every kind of call with its reason", async () => {
    const { client } = await serve(silence);
    const unavailable = await serve(json(503, UNAVAILABLE, { "Retry-After": "30" }));
    const calls = [
      (options) => client.me(options),
      (options) => client.jobs.wait("job_1", options),
      (options) => collect(client.jobs.watch("job_1", options)),
      (options) => collect(client.jobs.logs("job_1", options)),
      (options) => collect(client.jobs.list({}, options)),
      (options) => collect(client.events.follow(options)),
      (options) => unavailable.client.me(options),
    ];
    for (const call of calls) {
      const controller = new AbortController();
      const reason = new Error("enough");
      const pending = call({ signal: controller.signal });
      setTimeout(() => controller.abort(reason), 20);
      await assert.rejects(pending, (error) => error === reason);
      await assert.rejects(call({ signal: controller.signal }), (error) => error === reason);
    }
  });

  test("waiting ends at its time limit with the job as last seen", async () => {
    const { client } = await serve(json(200, JOB), silence);
    await assert.rejects(client.jobs.wait("job_1", { timeoutMs: 500 }), (error) => {
      assert.ok(error instanceof WaitTimeout);
      assert.equal(error.job.status, "running");
      return true;
    });
  });

  test("a very long time limit is none", async () => {
    const { client } = await serve(json(200, JOB), json(200, DONE));
    for (const timeoutMs of [Infinity, 2 ** 40]) {
      assert.equal((await client.jobs.wait("job_1", { timeoutMs })).status, "completed");
    }
    await assert.rejects(client.jobs.wait("job_1", { timeoutMs: NaN }), TypeError);
  });

  test("watching survives a restart and reports each status once", async () => {
    const queued = json(200, { ...JOB, status: "queued" });
    const { client, requests } = await serve(queued, cut, html(502), queued, json(200, JOB), cut, json(200, DONE));
    const statuses = [];
    for await (const job of client.jobs.watch("job_1")) statuses.push(job.status);
    assert.deepEqual(statuses, ["queued", "running", "completed"]);
    assert.equal(requests[0].url, "/v1/jobs/job_1");
    assert.equal(requests[1].url, "/v1/jobs/job_1?wait_for=change&wait_seconds=60");
  });

  test("watching ends when the key has expired", async () => {
    const error = { code: "unauthorized", message: "The key has expired.", request_id: "req_1" };
    const { client } = await serve(json(200, JOB), json(401, { error }));
    const jobs = client.jobs.watch("job_1");
    assert.equal((await jobs.next()).value.status, "running");
    await assert.rejects(jobs.next(), { code: "unauthorized", message: "The key has expired." });
  });

  test("a log resumes after its last event, wherever the stream was cut", async () => {
    // The two bytes of "é" and the two characters of a line end arrive apart.
    const accent = Buffer.from("id: 1\ndata: café\ndata: \n\n");
    const pieces = ["retry: 1000\n\n: keep-alive\n\n", accent.subarray(0, 16), accent.subarray(16), "id: 2\r"];
    const { client, requests } = await serve(
      stream(...pieces, "\ndata: tw", null),
      html(502),
      stream("id: 2\ndata: two\ndata: \n\n", "event: end\ndata: completed\n\n"),
    );
    assert.equal((await collect(client.jobs.logs("job_1"))).join(""), "café\ntwo\n");
    assert.deepEqual(requests.map(({ headers }) => headers["last-event-id"]), [undefined, "1", "1"]);
  });

  test("leaving a log early closes the connection", async () => {
    let closed;
    const { client } = await serve((_, response) => {
      closed = new Promise((resolve) => response.on("close", resolve));
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      response.write("id: 1\ndata: one\n\n");
    });
    for await (const text of client.jobs.logs("job_1")) {
      assert.equal(text, "one");
      break;
    }
    await closed;
  });

  test("filters become the query of the service", async () => {
    const page = (jobs, next_cursor) => json(200, { jobs, next_cursor });
    const { client, requests } = await serve(page([JOB], "next"), page([DONE], null));
    const status = ["queued", "running"];
    const filters = { status, labels: { team: "a&b" }, created_after: new Date(0), repo: undefined };
    assert.equal((await collect(client.jobs.list(filters))).length, 2);
    const [first, second] = requests.map(({ url }) => new URL(url, "http://localhost").searchParams);
    assert.deepEqual(first.getAll("status"), status);
    assert.equal(first.get("label.team"), "a&b");
    assert.equal(first.get("created_after"), "1970-01-01T00:00:00.000Z");
    assert.equal(first.has("repo"), false);
    assert.equal(second.get("cursor"), "next");
    assert.equal((await collect(client.jobs.list(filters), 1)).length, 1);
  });

  test("a filter that the service ignores is an error", async () => {
    const warnings = ["`label.team` was ignored: there is no such parameter."];
    const { client } = await serve(json(200, { jobs: [JOB], next_cursor: null, warnings }));
    await assert.rejects(collect(client.jobs.list({ labels: { team: "a" } })), {
      name: "NotSupported",
      message: /`label.team` was ignored.* older than this client/,
    });
    assert.equal((await client.jobs.page()).jobs.length, 1);
  });

  test("an operation that the service does not have is named", async () => {
    const error = { code: "not_found", message: "There is nothing at this path.", request_id: "req_1" };
    const { client } = await serve(json(404, { error }));
    await assert.rejects(client.usage(), { name: "NotSupported", message: /may be older than this client/ });
  });

  test("a listing that repeats a page ends", async () => {
    const { client } = await serve(json(200, { jobs: [JOB], next_cursor: "same" }));
    await assert.rejects(collect(client.jobs.list()), /same page again/);
  });

  test("a deprecation is announced", async () => {
    const headers = {
      Deprecation: "@1767225600",
      Sunset: "Fri, 01 Jan 2027 00:00:00 GMT",
      Link: '</v1/docs#getJob>; rel="deprecation"; type="text/html"',
    };
    const { baseUrl } = await serve(json(200, JOB, headers));
    const notices = [];
    const client = new AgentJobs({ baseUrl, apiKey: "ajk_test", onDeprecation: (notice) => notices.push(notice) });
    await client.jobs.get("job_1");
    const request = `GET ${baseUrl}/jobs/job_1`;
    assert.deepEqual(notices, [{ request, sunset: headers.Sunset, link: "/v1/docs#getJob" }]);
  });

  test("a header that HTTP cannot carry is a mistake of the caller", async () => {
    const { client, requests } = await serve(json(202, JOB));
    await assert.rejects(client.jobs.create(REQUEST, { idempotencyKey: "a\nb" }), TypeError);
    assert.equal(requests.length, 0);
  });
});
