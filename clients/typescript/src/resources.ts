/** Agents, repositories, pull requests, vulnerabilities and events. */

import { pause } from "./deadline.js";
import { checkFilters, itemsOf } from "./pages.js";
import { MAX_WAIT_SECONDS, delayWithoutChange } from "./retry.js";
import { type ApiRequest, type CallOptions, type Transport, segment } from "./transport.js";
import type {
  Agent,
  AgentDetails,
  Dependency,
  DependencyFilters,
  DependencyList,
  DismissRequest,
  EventPage,
  MergePullRequest,
  OrganizationEvent,
  Pull,
  PullFilters,
  PullList,
  Repository,
  Vulnerability,
  VulnerabilityFilters,
  VulnerabilityList,
} from "./types.js";

const PAGE_SIZE = 1000;
const SHORT_PAGE_SIZE = 100;

export class Agents {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  async *list(options: CallOptions = {}): AsyncGenerator<Agent, void, undefined> {
    const request: ApiRequest = { method: "GET", path: "/agents" };
    yield* (await this.#transport.json<{ agents: Agent[] }>(request, "agents", options)).agents;
  }

  /** With its description, limits, and a JSON Schema of its `config_override`. */
  async get(agentId: string, options: CallOptions = {}): Promise<AgentDetails> {
    return this.#transport.json<AgentDetails>({ method: "GET", path: `/agents/${segment(agentId)}` }, "id", options);
  }
}

export class Repositories {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  list(options: CallOptions = {}): AsyncGenerator<Repository, void, undefined> {
    type RepoList = { repos: Repository[]; next_cursor: string | null };
    return itemsOf(
      (cursor) => {
        const query = { cursor, limit: PAGE_SIZE };
        return this.#transport.json<RepoList>({ method: "GET", path: "/repos", query }, "repos", options);
      },
      (page) => page.repos,
    );
  }

  /** By its identifier or its full name. */
  async get(repo: string, options: CallOptions = {}): Promise<Repository> {
    return this.#transport.json<Repository>({ method: "GET", path: `/repos/${segment(repo)}` }, "id", options);
  }

  /** What the manifests and lock files of the indexed commit name, with known advisories. */
  dependencies(
    repoId: string,
    filters: DependencyFilters = {},
    options: CallOptions = {},
  ): AsyncGenerator<Dependency, void, undefined> {
    const path = `/repos/${segment(repoId)}/dependencies`;
    return itemsOf(
      async (cursor) => {
        const query = { ...filters, cursor, limit: PAGE_SIZE };
        const request: ApiRequest = { method: "GET", path, query };
        return checkFilters(await this.#transport.json<DependencyList>(request, "dependencies", options), query);
      },
      (page) => page.dependencies,
    );
  }
}

/** Pull requests that jobs opened. Merging and closing need a key with the scope `pulls`. */
export class Pulls {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Newest first. */
  list(filters: PullFilters = {}, options: CallOptions = {}): AsyncGenerator<Pull, void, undefined> {
    return itemsOf(
      async (cursor) => {
        const query = { ...filters, cursor, limit: SHORT_PAGE_SIZE };
        const request: ApiRequest = { method: "GET", path: "/pulls", query };
        return checkFilters(await this.#transport.json<PullList>(request, "pulls", options), query);
      },
      (page) => page.pulls,
    );
  }

  async get(pullId: string, options: CallOptions = {}): Promise<Pull> {
    return this.#transport.json<Pull>({ method: "GET", path: `/pulls/${segment(pullId)}` }, "id", options);
  }

  async merge(pullId: string, request: MergePullRequest = {}, options: CallOptions = {}): Promise<Pull> {
    const path = `/pulls/${segment(pullId)}/merge`;
    return this.#transport.json<Pull>({ method: "POST", path, body: request }, "id", options);
  }

  async close(pullId: string, options: CallOptions = {}): Promise<Pull> {
    return this.#transport.json<Pull>({ method: "POST", path: `/pulls/${segment(pullId)}/close` }, "id", options);
  }
}

/** Known vulnerabilities of the packages that repositories depend on. */
export class Vulnerabilities {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** The most severe first. */
  list(filters: VulnerabilityFilters = {}, options: CallOptions = {}): AsyncGenerator<Vulnerability, void, undefined> {
    return itemsOf(
      async (cursor) => {
        const query = { ...filters, cursor, limit: SHORT_PAGE_SIZE };
        const request: ApiRequest = { method: "GET", path: "/vulnerabilities", query };
        return checkFilters(await this.#transport.json<VulnerabilityList>(request, "vulnerabilities", options), query);
      },
      (page) => page.vulnerabilities,
    );
  }

  /** With `until`, it is only snoozed. */
  async dismiss(id: string, request: DismissRequest, options: CallOptions = {}): Promise<Vulnerability> {
    const path = `/vulnerabilities/${segment(id)}/dismiss`;
    return this.#transport.json<Vulnerability>({ method: "POST", path, body: request }, "id", options);
  }

  async reopen(id: string, options: CallOptions = {}): Promise<Vulnerability> {
    const path = `/vulnerabilities/${segment(id)}/reopen`;
    return this.#transport.json<Vulnerability>({ method: "POST", path }, "id", options);
  }
}

export interface EventOptions extends CallOptions {
  /** The `next_cursor` of an earlier page; by default the oldest stored event is the first. */
  cursor?: string | undefined;
}

export interface EventPageOptions extends EventOptions {
  limit?: number | undefined;
  /** How long to wait for an event if there is none. */
  waitSeconds?: number | undefined;
}

/** The events of all jobs, oldest first; the same that webhooks deliver. */
export class Events {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  async page(options: EventPageOptions = {}): Promise<EventPage> {
    return this.#transport.json<EventPage>(eventRequest(options), "next_cursor", options);
  }

  /** The events until now. */
  async *list(options: EventOptions = {}): AsyncGenerator<OrganizationEvent, void, undefined> {
    let { cursor } = options;
    for (let hasMore = true; hasMore; ) {
      const page = await this.page({ ...options, cursor, limit: PAGE_SIZE });
      yield* page.events;
      [cursor, hasMore] = [page.next_cursor, page.has_more];
    }
  }

  /**
   * The events until now and those to come, in pages. Store the `next_cursor` of a page once you have handled
   * it, and nothing is missed after a restart of your program. Survives restarts of the service.
   */
  async *follow(options: EventOptions = {}): AsyncGenerator<EventPage, never, undefined> {
    const retry = this.#transport.retryDuringOutage();
    let { cursor } = options;
    for (;;) {
      const askedAt = Date.now();
      try {
        const request = eventRequest({ cursor, limit: PAGE_SIZE, waitSeconds: MAX_WAIT_SECONDS });
        const page = await this.#transport.jsonOnce<EventPage>(request, "next_cursor", options);
        retry.recordSuccess();
        cursor = page.next_cursor;
        if (page.events.length > 0) yield page;
        else await pause(delayWithoutChange(askedAt), options.signal);
      } catch (error) {
        await pause(retry.delayAfter(error), options.signal);
      }
    }
  }
}

function eventRequest(options: EventPageOptions): ApiRequest {
  const { cursor, limit, waitSeconds = 0 } = options;
  return { method: "GET", path: "/events", query: { cursor, limit }, waitSeconds };
}
