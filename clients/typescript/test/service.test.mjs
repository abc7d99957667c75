// The client against a running service: AGENTJOBS_URL and AGENTJOBS_API_KEY, with the repository
// acme/shop and the agents edit (changes a file), crash (fails) and sleepy (runs until it is cancelled).
import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { AgentJobs, ApiError, collect, isFinished } from "@agentjobs/client";

const client = AgentJobs.fromEnvironment();
const REPO = "acme/shop";

describe("the client", { concurrency: true }, () => {
  test("follows a job from its creation to its pull request", async () => {
    const { job_id } = await client.jobs.create({ repo: REPO, agent: "edit", labels: { from: "typescript" } });
    const log = collect(client.jobs.logs(job_id));
    const statuses = [];
    for await (const job of client.jobs.watch(job_id)) statuses.push(job.status);
    assert.equal(statuses.at(-1), "completed");

    const job = await client.jobs.wait(job_id, { timeoutMs: 60_000 });
    assert.ok(isFinished(job));
    assert.match(job.pr_url, /\/pulls\/\d+$/);
    assert.equal((await log).join(""), await client.jobs.logText(job_id));
    assert.match((await log).join(""), /editing/);
    assert.match(await client.jobs.logText(job_id, { timestamps: true }), /^20\d\d-/);
    assert.ok((await log).join("").endsWith(await client.jobs.logText(job_id, { tailBytes: 8 })));
    assert.match(await client.jobs.prompt(job_id), /acme\/shop/);

    const [file] = (await client.jobs.diff(job_id)).files;
    assert.equal(file.path, "edited.txt");
    assert.match(await client.jobs.diffText(job_id), /^\+changed$/m);
    assert.deepEqual(await client.jobs.artifacts(job_id), []);
    assert.deepEqual(await collect(client.jobs.steps(job_id, { kind: "command" })), []);
    await assert.rejects(client.jobs.artifact(job_id, "none.txt"), { status: 404, code: "artifact_not_found" });

    const events = await client.jobs.events(job_id);
    assert.equal(events[0].event, "job.queued");
    const ids = new Set((await collect(client.events.list())).map(({ id }) => id));
    assert.ok(events.every(({ id }) => ids.has(id)));

    const [pull] = await collect(client.pulls.list({ job_id }));
    assert.deepEqual([pull.number, pull.state, pull.url], [job.pr_number, "open", job.pr_url]);
    assert.equal((await client.pulls.get(pull.id)).head_commit, job.head_commit);

    const followUp = await client.jobs.followUp(job_id, { prompt: "Once more." });
    const second = await client.jobs.wait(followUp.job_id);
    assert.deepEqual([second.status, second.follows, second.pr_url], ["completed", job_id, job.pr_url]);
    await assert.rejects(client.pulls.merge(pull.id, { head_commit: job.head_commit }), { code: "pull_changed" });
    assert.equal((await client.pulls.merge(pull.id, { method: "squash" })).state, "merged");
  });

  test("reports why a job failed, and retries it", async () => {
    const { job_id } = await client.jobs.create({ repo: REPO, agent: "crash", labels: { from: "crash" } });
    const job = await client.jobs.wait(job_id);
    assert.deepEqual([job.status, job.error.code], ["failed", "agent_failed"]);
    const again = await client.jobs.retry(job_id);
    assert.notEqual(again.job_id, job_id);
    const labelled = await collect(client.jobs.list({ labels: { from: "crash" } }));
    assert.ok(labelled.some((each) => each.job_id === again.job_id));
    assert.equal((await client.jobs.wait(again.job_id)).status, "failed");
  });

  test("cancels a job, once", async () => {
    const { job_id } = await client.jobs.create({ repo: REPO, agent: "sleepy" });
    for await (const job of client.jobs.watch(job_id)) {
      if (job.status === "running") break;
    }
    await assert.rejects(client.jobs.wait(job_id, { timeoutMs: 50 }), { name: "WaitTimeout" });
    await client.jobs.cancel(job_id);
    assert.equal((await client.jobs.wait(job_id)).status, "cancelled");
    await assert.rejects(client.jobs.cancel(job_id), { code: "job_finished", status: 409, retryable: false });
  });

  test("creates one job for one idempotency key", async () => {
    const options = { idempotencyKey: `key-${Date.now()}` };
    const [first, second] = [
      await client.jobs.create({ repo: REPO, agent: "crash" }, options),
      await client.jobs.create({ repo: REPO, agent: "crash" }, options),
    ];
    assert.equal(first.job_id, second.job_id);
  });

  test("pages through a listing", async () => {
    const receipts = [];
    for (let count = 0; count < 3; count += 1) {
      receipts.push(await client.jobs.create({ repo: REPO, agent: "crash", labels: { from: "pages" } }));
    }
    const filters = { labels: { from: "pages" }, agent: "crash" };
    const page = await client.jobs.page(filters, { limit: 2 });
    const rest = await client.jobs.page(filters, { cursor: page.next_cursor });
    const ids = [...page.jobs, ...rest.jobs].map((job) => job.job_id);
    assert.equal(page.jobs.length, 2);
    for (const { job_id } of receipts) assert.ok(ids.includes(job_id));
  });

  test("follows events as they happen", async () => {
    const { next_cursor } = await client.events.page({ limit: 1000 });
    const { job_id } = await client.jobs.create({ repo: REPO, agent: "crash" });
    const names = [];
    for await (const page of client.events.follow({ cursor: next_cursor })) {
      names.push(...page.events.filter((event) => event.job_id === job_id).map(({ event }) => event));
      if (names.includes("job.failed")) break;
    }
    assert.deepEqual(names, ["job.queued", "job.started", "job.failed"]);
  });

  test("shows agents, repositories, the caller and usage", async () => {
    const agents = await collect(client.agents.list());
    assert.ok(agents.some((agent) => agent.id === "edit" && agent.available));
    assert.equal((await client.agents.get("edit")).config_override_schema.type, "object");
    const repo = await client.repos.get(REPO);
    assert.equal((await client.repos.get(repo.id)).full_name, REPO);
    assert.ok((await collect(client.repos.list())).some((each) => each.id === repo.id));
    assert.deepEqual(await collect(client.repos.dependencies(repo.id)), []);
    const me = await client.me();
    assert.ok(me.key.scopes.includes("jobs"));
    const usage = await client.usage({ group_by: "agent" });
    assert.ok(usage.total.jobs.total >= usage.groups.length);
  });

  test("names what is wrong with a request", async () => {
    await assert.rejects(client.jobs.create({ repo: "acme/none", agent: "edit" }), { code: "repo_not_connected" });
    await assert.rejects(client.jobs.create({ repo: REPO, agent: "" }), (error) => {
      assert.ok(error instanceof ApiError);
      assert.deepEqual([error.status, error.code, error.details[0].field], [422, "validation_failed", "agent"]);
      assert.match(error.requestId, /^req_/);
      return true;
    });
    await assert.rejects(client.jobs.get("job_none"), { code: "job_not_found", status: 404 });
    const unauthorized = new AgentJobs({ baseUrl: process.env.AGENTJOBS_URL, apiKey: "ajk_wrong" });
    await assert.rejects(unauthorized.me(), { code: "unauthorized", status: 401, retryable: false });
  });
});
