/** The client of one service with one API key. */

import { Jobs } from "./jobs.js";
import { Agents, Events, Pulls, Repositories, Vulnerabilities } from "./resources.js";
import { type CallOptions, type ClientOptions, Transport } from "./transport.js";
import type { Caller, UsageQuery, UsageReport } from "./types.js";

/**
 * @example
 * const client = new AgentJobs({ baseUrl: "https://jobs.example.com/v1", apiKey });
 * const { job_id } = await client.jobs.create({ repo: "acme/shop", agent: "lint-fixer" });
 * console.log((await client.jobs.wait(job_id)).pr_url);
 */
export class AgentJobs {
  readonly jobs: Jobs;
  readonly agents: Agents;
  readonly repos: Repositories;
  readonly pulls: Pulls;
  readonly vulnerabilities: Vulnerabilities;
  readonly events: Events;
  readonly #transport: Transport;

  constructor(options: ClientOptions) {
    this.#transport = new Transport(options);
    this.jobs = new Jobs(this.#transport);
    this.agents = new Agents(this.#transport);
    this.repos = new Repositories(this.#transport);
    this.pulls = new Pulls(this.#transport);
    this.vulnerabilities = new Vulnerabilities(this.#transport);
    this.events = new Events(this.#transport);
  }

  /** With the address in AGENTJOBS_URL and the key in AGENTJOBS_API_KEY. */
  static fromEnvironment(options: Omit<ClientOptions, "baseUrl" | "apiKey"> = {}): AgentJobs {
    const baseUrl = environment("AGENTJOBS_URL", "the address of the service, such as https://…/v1");
    const apiKey = environment("AGENTJOBS_API_KEY", "a key from `agentjobs keys create`");
    return new AgentJobs({ ...options, baseUrl, apiKey });
  }

  /** The organization, its plan and limits, and the key's scopes. */
  async me(options: CallOptions = {}): Promise<Caller> {
    return this.#transport.json<Caller>({ method: "GET", path: "/me" }, "organization", options);
  }

  /** What the jobs of a period used; by default of the last 30 days. */
  async usage(query: UsageQuery = {}, options: CallOptions = {}): Promise<UsageReport> {
    return this.#transport.json<UsageReport>({ method: "GET", path: "/usage", query }, "total", options);
  }
}

function environment(name: string, meaning: string): string {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  const value = process?.env?.[name];
  if (!value) throw new TypeError(`set ${name} to ${meaning}`);
  return value;
}
