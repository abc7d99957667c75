// Signatures of webhooks, against the signed examples of the OpenAPI document.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { InvalidSignature, UnknownPayload, verifyWebhook } from "@agentjobs/client";

const document = JSON.parse(await readFile(new URL("../../../docs/openapi.json", import.meta.url), "utf8"));
const FIELDS = ["event", "job_id", "repo", "pr_url", "timestamp"];
const { description } = document.tags.find(({ name }) => name === "Webhooks");
const [SECRET, PENDING_SECRET] = description.match(/whsec_[A-Za-z0-9+/]{8,}=*/g);

function example(event) {
  const { parameters, requestBody } = document.webhooks[event].post;
  const headers = Object.fromEntries(parameters.map((each) => [each.name, String(each.example)]));
  const body = JSON.stringify(requestBody.content["application/json"].example, FIELDS);
  return { body, headers, now: () => Number(headers["webhook-timestamp"]) * 1000 };
}

test("every example of the document verifies with both secrets", async () => {
  for (const event of Object.keys(document.webhooks)) {
    const { body, headers, now } = example(event);
    for (const secret of [SECRET, PENDING_SECRET, ["whsec_b3RoZXI=", `${SECRET}\n`]]) {
      const verified = await verifyWebhook(body, headers, secret, { now });
      assert.equal(verified.event, event);
      assert.equal(verified.eventId, headers["webhook-id"]);
      assert.equal(verified.deliveryId, headers["X-Service-Delivery"]);
      assert.equal(verified.sequence, Number(headers["X-Service-Sequence"]));
    }
  }
});

test("the body may be text, bytes or a buffer, and headers of any kind", async () => {
  const { body, headers, now } = example("job.completed");
  const bytes = new TextEncoder().encode(body);
  const lists = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), [value]]));
  for (const form of [body, bytes, bytes.buffer, Buffer.from(body)]) {
    for (const values of [headers, new Headers(headers), new Map(Object.entries(headers)), lists]) {
      assert.equal((await verifyWebhook(form, values, SECRET, { now })).event, "job.completed");
    }
  }
});

test("the signature of the documentation's example verifies", async () => {
  const signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
  const headers = { "X-Service-Signature-256": signature };
  const options = { toleranceSeconds: null };
  // The signature is valid; the body is no event.
  await assert.rejects(verifyWebhook("Hello, World!", headers, "It's a Secret to Everybody", options), UnknownPayload);
});

test("a change of the body, the secret, the id or the time is refused", async () => {
  const { body, headers, now } = example("job.failed");
  const refuses = (text, secret, values, message) =>
    assert.rejects(verifyWebhook(text, values, secret, { now }), (error) => {
      assert.ok(error instanceof InvalidSignature);
      assert.match(error.message, message);
      return true;
    });
  await refuses(body.replace("acme", "evil"), SECRET, headers, /X-Service-Signature-256 does not match/);
  await refuses(body, "whsec_b3RoZXI=", headers, /X-Service-Signature-256 does not match/);
  await refuses(body, SECRET, { ...headers, "webhook-id": "evt_other" }, /webhook-signature does not match/);
  await refuses(body, SECRET, { ...headers, "webhook-timestamp": "1" }, /webhook-signature does not match/);
  await refuses(body, SECRET, {}, /X-Service-Signature-256 is missing/);
  const { "webhook-id": _, ...withoutId } = headers;
  await refuses(body, SECRET, withoutId, /webhook-id is missing/);
  const signature = headers["X-Service-Signature-256"];
  for (const wrong of [signature.slice(0, -1), `${signature}0`, signature.toUpperCase(), ""]) {
    await refuses(body, SECRET, { "X-Service-Signature-256": wrong }, /does not match/);
  }
});

test("a clock that is off is named", async () => {
  const { body, headers, now } = example("job.queued");
  const verifyAt = (milliseconds) => verifyWebhook(body, headers, SECRET, { now: () => milliseconds });
  await assert.rejects(verifyAt(now() + 301_000), /301 s old, more than the allowed 300 s; check the clock/);
  await assert.rejects(verifyAt(now() - 301_000), /301 s ahead/);
  await verifyAt(now() + 299_000);
  await verifyWebhook(body, headers, SECRET, { toleranceSeconds: null });
});

test("an empty secret and a parsed body are mistakes of the caller", async () => {
  const { body, headers, now } = example("job.queued");
  for (const secret of ["", " ", [], [SECRET, ""], undefined]) {
    await assert.rejects(verifyWebhook(body, headers, secret, { now }), /secret, but it is empty/);
  }
  await assert.rejects(verifyWebhook(JSON.parse(body), headers, SECRET, { now }), /raw body/);
});
