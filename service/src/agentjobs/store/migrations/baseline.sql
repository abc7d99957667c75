-- The schema, by the package that owns each table. Times are milliseconds since the epoch.
-- `1000_baseline.py` runs these statements, on SQLite with its own names of the types.

-- organizations

CREATE TABLE organizations (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    plan TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    -- Money is counted in billionths of a US dollar, so that sums are exact.
    daily_budget_nanousd BIGINT,
    job_budget_nanousd BIGINT,
    auto_trigger TEXT,
    paused_at BIGINT,
    -- Host patterns that setup may reach, as JSON; NULL: those of the service.
    setup_network TEXT
);

CREATE TABLE users (
    id TEXT NOT NULL PRIMARY KEY,
    -- Lowercase.
    email TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL DEFAULT '',
    password_hash TEXT,
    oidc_issuer TEXT,
    oidc_subject TEXT,
    created_at BIGINT NOT NULL,
    last_sign_in_at BIGINT,
    is_operator BOOLEAN NOT NULL DEFAULT FALSE
);
CREATE UNIQUE INDEX users_of_provider ON users (oidc_issuer, oidc_subject)
    WHERE oidc_subject IS NOT NULL;

CREATE TABLE memberships (
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    user_id TEXT NOT NULL REFERENCES users (id),
    role TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organization_id, user_id)
);
CREATE INDEX memberships_of_user ON memberships (user_id);

CREATE TABLE invitations (
    id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    email TEXT NOT NULL,
    role TEXT NOT NULL,
    hash BYTEA NOT NULL UNIQUE,
    -- The display name of the inviting actor.
    invited_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    accepted_at BIGINT,
    revoked_at BIGINT
);
CREATE INDEX invitations_of_organization ON invitations (organization_id, id);

CREATE TABLE sessions (
    hash BYTEA NOT NULL PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id),
    -- The current organization of the session.
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    created_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    address TEXT NOT NULL,
    user_agent TEXT NOT NULL
);
CREATE INDEX sessions_of_user ON sessions (user_id);

CREATE TABLE sign_in_links (
    hash BYTEA NOT NULL PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id),
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    -- 'sign_in' or 'password_reset'.
    purpose TEXT NOT NULL DEFAULT 'sign_in',
    -- The only organization that the account of a reset link by an admin may belong to.
    organization_id TEXT,
    -- NULL: created with the command line, or by 0.1.
    created_by TEXT
);

CREATE TABLE sign_in_failures (
    -- The hash of an e-mail address, or a network address.
    subject TEXT NOT NULL PRIMARY KEY,
    failures BIGINT NOT NULL,
    since BIGINT NOT NULL
);

CREATE TABLE api_keys (
    id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    name TEXT NOT NULL,
    hint TEXT NOT NULL,
    hash BYTEA NOT NULL UNIQUE,
    scope TEXT NOT NULL,
    git_write BOOLEAN NOT NULL DEFAULT FALSE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT,
    last_used_at BIGINT,
    -- CIDR ranges separated by commas; NULL for any address.
    allowed_networks TEXT
);

CREATE TABLE secrets (
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    name TEXT NOT NULL,
    sealed BYTEA NOT NULL,
    key_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (organization_id, name)
);

CREATE TABLE audit_log (
    id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    at BIGINT NOT NULL,
    -- user, key, operator or service; its identifier, if any; its display name.
    actor_kind TEXT NOT NULL,
    actor_id TEXT,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    -- A JSON object.
    details TEXT NOT NULL DEFAULT '{}',
    address TEXT NOT NULL
);
CREATE INDEX audit_log_of_organization ON audit_log (organization_id, id);

CREATE TABLE effective_settings (
    name TEXT NOT NULL PRIMARY KEY,
    -- JSON.
    value TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE used_form_tokens (
    -- The hash of the token and the path of the form.
    hash BYTEA NOT NULL PRIMARY KEY,
    used_at BIGINT NOT NULL
);

-- fleet

CREATE TABLE processes (
    id TEXT NOT NULL PRIMARY KEY,
    -- serve or up
    role TEXT NOT NULL,
    hostname TEXT NOT NULL,
    version TEXT NOT NULL,
    configuration_digest TEXT NOT NULL,
    -- Why it cannot use the directory of the repositories; NULL if it can.
    repositories_problem TEXT,
    started_at BIGINT NOT NULL,
    heartbeat_at BIGINT NOT NULL,
    -- NULL: the process does not report it.
    disk_free_bytes BIGINT,
    disk_total_bytes BIGINT
);

-- store

CREATE TABLE leases (
    name TEXT NOT NULL PRIMARY KEY,
    held_until BIGINT NOT NULL,
    -- When the role is due next; 0 for leases that are not periodic.
    due_at BIGINT NOT NULL DEFAULT 0
);

-- webhooks

CREATE TABLE webhook_endpoints (
    id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    url TEXT NOT NULL,
    description TEXT NOT NULL DEFAULT '',
    -- A JSON list of event names; an empty list means all events.
    events TEXT NOT NULL DEFAULT '[]',
    sealed BYTEA NOT NULL,
    key_id TEXT NOT NULL,
    -- The pending secret, promoted at `promote_at` or on request.
    pending_sealed BYTEA,
    pending_key_id TEXT,
    promote_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    disabled_at BIGINT,
    disabled_reason TEXT,
    last_success_at BIGINT,
    last_failure_at BIGINT,
    -- The first failure since the last success.
    failing_since BIGINT,
    removed_at BIGINT
);
CREATE INDEX webhook_endpoints_of_organization ON webhook_endpoints (organization_id, id)
    WHERE removed_at IS NULL;

CREATE TABLE events (
    job_id TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    id TEXT NOT NULL,
    event TEXT NOT NULL,
    body BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    -- NULL: stored by an earlier version, or no event of a job. Such events are not listed.
    organization_id TEXT,
    -- Given when the event is first listed, in the order of commits; NULL before.
    position BIGINT,
    PRIMARY KEY (job_id, sequence)
);
CREATE UNIQUE INDEX events_listed ON events (organization_id, position) WHERE position IS NOT NULL;
CREATE INDEX events_unlisted ON events (organization_id, created_at)
    WHERE organization_id IS NOT NULL AND position IS NULL;

CREATE TABLE event_positions (
    organization_id TEXT NOT NULL PRIMARY KEY,
    last_position BIGINT NOT NULL
);

CREATE TABLE deliveries (
    id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL,
    endpoint_id TEXT NOT NULL,
    -- The event; `events` holds the payload once for all endpoints and attempts.
    job_id TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    event_id TEXT NOT NULL,
    event TEXT NOT NULL,
    status TEXT NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    -- Failed attempts since the first one or since the last redelivery.
    failures BIGINT NOT NULL DEFAULT 0,
    due_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    lease_owner TEXT,
    lease_expires_at BIGINT,
    fence BIGINT NOT NULL DEFAULT 0
);
-- Waiting deliveries: by organization first, so that senders can skip one that is at its limit.
CREATE INDEX deliveries_first ON deliveries (organization_id, endpoint_id, id)
    WHERE status = 'pending' AND lease_owner IS NULL AND attempts = 0;
CREATE INDEX deliveries_retry ON deliveries (organization_id, endpoint_id, due_at)
    WHERE status = 'pending' AND lease_owner IS NULL AND attempts > 0;
CREATE INDEX deliveries_leased ON deliveries (lease_expires_at) WHERE lease_owner IS NOT NULL;
CREATE INDEX deliveries_of_job ON deliveries (job_id, endpoint_id, sequence);
-- Pages of the log, by organization or endpoint and by status or all. An expression, so that
-- queries for waiting deliveries do not use these indexes.
CREATE INDEX deliveries_of_endpoint ON deliveries (endpoint_id, (status || ''), id);
CREATE INDEX deliveries_of_organization ON deliveries (organization_id, (status || ''), id);
-- Every row is updated twice within seconds, so dead rows accumulate and statistics become stale.
-- The thresholds count rows, independently of the size of the log.
/*postgresql ALTER TABLE deliveries SET (fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000) */;

CREATE TABLE delivery_attempts (
    delivery_id TEXT NOT NULL,
    id TEXT NOT NULL,
    at BIGINT NOT NULL,
    duration_ms BIGINT NOT NULL,
    status_code BIGINT,
    error_class TEXT,
    error TEXT,
    address TEXT,
    -- JSON lists of [name, value].
    request_headers TEXT NOT NULL,
    response_headers TEXT NOT NULL,
    response_body BYTEA NOT NULL,
    PRIMARY KEY (delivery_id, id)
);

-- gateway

CREATE TABLE daily_spending (
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    -- Days since the epoch, in UTC.
    day BIGINT NOT NULL,
    spent_nanousd BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (organization_id, day)
);

CREATE TABLE job_spending (
    job_id TEXT NOT NULL PRIMARY KEY,
    spent_nanousd BIGINT NOT NULL DEFAULT 0,
    input_tokens BIGINT NOT NULL DEFAULT 0,
    output_tokens BIGINT NOT NULL DEFAULT 0,
    requests BIGINT NOT NULL DEFAULT 0
);

-- repos

CREATE TABLE repos (
    id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    full_name TEXT NOT NULL,
    platform TEXT NOT NULL,
    source TEXT NOT NULL,
    default_branch TEXT NOT NULL,
    -- Empty until a repository of a platform is fetched.
    head_commit TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    disconnected_at BIGINT,
    -- A JSON list of patterns of protected paths that agents may change.
    lifted_paths TEXT NOT NULL DEFAULT '[]',
    auto_trigger TEXT,
    connection_id TEXT,
    -- The platform's own identifier, which survives renames.
    external_id TEXT,
    -- A JSON list of tags; only workers with all of them claim jobs of the repository.
    required_tags TEXT NOT NULL DEFAULT '[]',
    max_concurrent_jobs INTEGER
);
CREATE UNIQUE INDEX repos_connected ON repos (organization_id, full_name)
    WHERE disconnected_at IS NULL;
CREATE INDEX repos_limited ON repos (id) WHERE max_concurrent_jobs IS NOT NULL;
CREATE UNIQUE INDEX repos_of_connection ON repos (connection_id, external_id)
    WHERE connection_id IS NOT NULL AND disconnected_at IS NULL;

-- Repositories that are due for an index. The lease is separate from the due time, so that an index
-- requested during an index cannot start beside it.
CREATE TABLE index_queue (
    repo_id TEXT NOT NULL PRIMARY KEY REFERENCES repos (id),
    -- NULL if nothing changed.
    due_at BIGINT,
    lease_until BIGINT,
    failures BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX index_queue_due ON index_queue (due_at) WHERE due_at IS NOT NULL;

-- Repositories whose dependencies are to be scanned; the time is the end of the lease during a scan.
CREATE TABLE scan_queue (
    repo_id TEXT NOT NULL PRIMARY KEY REFERENCES repos (id),
    -- NULL if nothing changed.
    due_at BIGINT
);
CREATE INDEX scan_queue_due ON scan_queue (due_at) WHERE due_at IS NOT NULL;

-- Repositories of platforms and when they are synced next.
CREATE TABLE sync_queue (
    repo_id TEXT NOT NULL PRIMARY KEY REFERENCES repos (id),
    due_at BIGINT,
    lease_until BIGINT,
    failures BIGINT NOT NULL DEFAULT 0,
    -- A hook or a job reported a change that was not synced yet.
    requested_at BIGINT
);
CREATE INDEX sync_queue_due ON sync_queue (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE repo_imports (
    id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    full_name TEXT NOT NULL,
    source TEXT NOT NULL,
    -- running or failed
    state TEXT NOT NULL,
    message TEXT,
    started_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    -- The process that runs the import renews it; NULL for imports of earlier versions.
    lease_until BIGINT
);
CREATE INDEX repo_imports_of_organization ON repo_imports (organization_id, id);

CREATE TABLE repo_hooks (
    repo_id TEXT NOT NULL PRIMARY KEY,
    -- The secret of the webhook; empty until one is registered.
    sealed BYTEA NOT NULL,
    key_id TEXT NOT NULL,
    state TEXT NOT NULL,
    -- Why there is no webhook, or which other one serves the repository.
    note TEXT,
    -- What the platform says about deliveries.
    delivery TEXT NOT NULL,
    is_failing BOOLEAN NOT NULL,
    failures BIGINT NOT NULL,
    checked_at BIGINT,
    due_at BIGINT NOT NULL,
    removal_due_at BIGINT
);
CREATE INDEX repo_hooks_removal ON repo_hooks (removal_due_at);

-- connections

CREATE TABLE platform_connections (
    id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    platform TEXT NOT NULL,
    -- "app" or "token".
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    -- The URL of the platform, without a trailing slash.
    url TEXT NOT NULL,
    app_id TEXT,
    installation_id TEXT,
    -- The account on the platform; NULL until it was verified.
    account TEXT,
    -- The private key or token, and the webhook secret; empty after removal.
    sealed BYTEA NOT NULL,
    key_id TEXT NOT NULL,
    hook_sealed BYTEA NOT NULL,
    hook_key_id TEXT NOT NULL,
    error TEXT,
    checked_at BIGINT,
    hook_seen_at BIGINT,
    -- Consecutive failures, and until when its repositories are not polled.
    away_failures BIGINT NOT NULL DEFAULT 0,
    resting_until BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    removed_at BIGINT,
    -- The account's name and address; NULL until a check has found them.
    commit_name TEXT,
    commit_email TEXT,
    -- none, ssh or platform.
    signing TEXT NOT NULL DEFAULT 'none',
    -- The private key for `ssh`; empty if there is none.
    signing_sealed BYTEA,
    signing_key_id TEXT NOT NULL DEFAULT '',
    signing_public_key TEXT
);
CREATE UNIQUE INDEX platform_connections_names ON platform_connections (organization_id, name)
    WHERE removed_at IS NULL;

-- environments

CREATE TABLE repo_environments (
    repo_id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL,
    -- Set in the service, as JSON; NULL: the repository's own files decide.
    definition TEXT,
    -- Branches beside the default branch whose setup gets network and secrets, as JSON.
    trusted_branches TEXT NOT NULL,
    -- Part of every key: a higher number retires the snapshots.
    generation BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE environment_secrets (
    organization_id TEXT NOT NULL,
    -- Empty for a secret of the whole organization.
    repo_id TEXT NOT NULL,
    name TEXT NOT NULL,
    -- setup, proxy or registry.
    purpose TEXT NOT NULL,
    host TEXT NOT NULL,
    -- How the value is used, as JSON: header, path prefix, methods, kind, user name.
    usage TEXT NOT NULL,
    sealed BYTEA NOT NULL,
    key_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (organization_id, repo_id, name)
);

CREATE TABLE environment_builds (
    id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL,
    repo_id TEXT NOT NULL,
    -- queued, building, ready, failed or removed.
    state TEXT NOT NULL,
    -- job, push, image or request.
    reason TEXT NOT NULL,
    -- The data directory that has or makes the snapshot; NULL: any worker may build.
    location TEXT,
    lease_until BIGINT,
    -- What a worker fetches the repository with.
    credential_hash BYTEA,
    branch TEXT NOT NULL,
    commit_id TEXT NOT NULL,
    -- The digest of the definition and its files; `key` also includes the digest of the image.
    request_key TEXT NOT NULL,
    key TEXT NOT NULL,
    generation BIGINT NOT NULL,
    -- Paths and object IDs of the files in the key, as JSON.
    cache_files TEXT NOT NULL,
    image TEXT NOT NULL,
    image_digest TEXT NOT NULL,
    size_bytes BIGINT NOT NULL,
    setup_ms BIGINT NOT NULL,
    hits BIGINT NOT NULL,
    error TEXT NOT NULL,
    log TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    finished_at BIGINT,
    used_at BIGINT
);
CREATE INDEX environment_builds_repo ON environment_builds (repo_id, request_key);
CREATE INDEX environment_builds_state ON environment_builds (state, lease_until);

-- pulls

CREATE TABLE pulls (
    repo_id TEXT NOT NULL REFERENCES repos (id),
    number BIGINT NOT NULL,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    head_branch TEXT NOT NULL,
    base_branch TEXT NOT NULL,
    head_commit TEXT NOT NULL,
    base_commit TEXT NOT NULL,
    state TEXT NOT NULL,
    draft BOOLEAN NOT NULL DEFAULT FALSE,
    merge_commit TEXT,
    created_at BIGINT NOT NULL,
    merged_at BIGINT,
    closed_at BIGINT,
    -- Who merged or closed it.
    ended_by TEXT,
    -- Its URL on the platform; NULL for `local`.
    url TEXT,
    -- The number of the last processed comment.
    comment_seen BIGINT NOT NULL DEFAULT 0,
    -- When it was last synced, and when a hook reported a change since.
    synced_at BIGINT,
    change_reported_at BIGINT,
    -- How often in a row the platform returned not found.
    not_found_count BIGINT NOT NULL DEFAULT 0,
    -- The number of the last processed comment of each kind, like `comment_seen`. NULL for pull
    -- requests of 0.1: their first sync only stores the latest number, so that old comments start
    -- no jobs. New rows start with 0.
    line_comment_seen BIGINT,
    review_seen BIGINT,
    PRIMARY KEY (repo_id, number)
);
CREATE INDEX pulls_by_time ON pulls (repo_id, created_at, number, state);
CREATE INDEX pulls_followed ON pulls (repo_id, state) WHERE state <> 'merged';
CREATE UNIQUE INDEX pulls_of_branch ON pulls (repo_id, head_branch);
CREATE INDEX pulls_changed ON pulls (repo_id) WHERE change_reported_at IS NOT NULL;

-- The last numbers of pull requests on the platform `local`.
CREATE TABLE pull_numbers (
    repo_id TEXT NOT NULL PRIMARY KEY REFERENCES repos (id),
    last_number BIGINT NOT NULL
);

CREATE TABLE pull_comments (
    id TEXT NOT NULL PRIMARY KEY,
    repo_id TEXT NOT NULL REFERENCES repos (id),
    number BIGINT NOT NULL,
    author_id TEXT,
    author TEXT NOT NULL,
    body TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    -- NULL for a comment on the whole pull request.
    path TEXT,
    line BIGINT,
    -- 'left', of the base, or 'right'.
    side TEXT,
    -- The head at that time, and the line with a few before it.
    commit_id TEXT,
    code TEXT,
    -- The comment on a line that this one replies to.
    reply_to TEXT,
    -- The follow-up that it started.
    job_id TEXT,
    resolved_at BIGINT,
    resolved_by TEXT
);
CREATE INDEX comments_of_pull ON pull_comments (repo_id, number, id);

CREATE TABLE pull_statuses (
    repo_id TEXT NOT NULL,
    number BIGINT NOT NULL,
    -- The latest job on the pull request.
    job_id TEXT NOT NULL,
    -- When to compare what should be reported with what was written; also the writer's lease.
    due_at BIGINT,
    failures BIGINT NOT NULL,
    error TEXT,
    -- What was written last.
    written_job_id TEXT NOT NULL,
    head_commit TEXT NOT NULL,
    state TEXT NOT NULL,
    written_at BIGINT,
    PRIMARY KEY (repo_id, number)
);
CREATE INDEX pull_statuses_due ON pull_statuses (due_at);

CREATE TABLE pull_views (
    repo_id TEXT NOT NULL REFERENCES repos (id),
    number BIGINT NOT NULL,
    user_id TEXT NOT NULL,
    -- A digest of the path, which may be longer than an index allows.
    file_key TEXT NOT NULL,
    -- The content that was viewed.
    blob_id TEXT NOT NULL,
    viewed_at BIGINT NOT NULL,
    PRIMARY KEY (repo_id, number, user_id, file_key)
);
CREATE INDEX pull_views_by_time ON pull_views (viewed_at);

-- Branches of finished work on platforms, until they are deleted there.
CREATE TABLE finished_branches (
    repo_id TEXT NOT NULL,
    branch TEXT NOT NULL,
    head_commit TEXT NOT NULL,
    due_at BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    PRIMARY KEY (repo_id, branch)
);

-- inventory

-- The result and the progress of the index. A repository without a row is still to be indexed.
CREATE TABLE repo_index (
    repo_id TEXT NOT NULL PRIMARY KEY REFERENCES repos (id),
    -- 'ready' once an index is stored.
    status TEXT NOT NULL DEFAULT 'indexing',
    indexed_commit TEXT,
    -- Files read so far, and all files.
    done BIGINT NOT NULL DEFAULT 0,
    total BIGINT,
    error TEXT,
    line_count BIGINT NOT NULL DEFAULT 0,
    -- JSON: [[language, files, lines], …], most lines first.
    languages TEXT NOT NULL DEFAULT '[]',
    -- JSON: [{path, reason}, …]
    warnings TEXT NOT NULL DEFAULT '[]',
    -- The versions of the analyzers and their input, to skip unchanged work.
    fingerprint TEXT,
    dependencies_digest TEXT,
    -- From .agentjobs.toml of the indexed commit; NULL for the default.
    configured_trigger TEXT,
    configured_grouping TEXT
);

-- A row for each package version of a manifest.
CREATE TABLE dependencies (
    repo_id TEXT NOT NULL REFERENCES repos (id),
    -- The order of the listing: manifest, direct ones first, name.
    position BIGINT NOT NULL,
    ecosystem TEXT NOT NULL,
    name TEXT NOT NULL,
    version TEXT,
    requirement TEXT NOT NULL,
    direct BOOLEAN NOT NULL,
    scope TEXT NOT NULL,
    manifest TEXT NOT NULL,
    -- JSON: the names from a direct dependency to the parent.
    parents TEXT NOT NULL,
    purl TEXT NOT NULL,
    fixture BOOLEAN NOT NULL DEFAULT FALSE,
    -- 'yes', 'no' or 'unknown'.
    imported TEXT NOT NULL DEFAULT 'unknown',
    managed_by TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (repo_id, position)
);
CREATE INDEX dependencies_by_name ON dependencies (ecosystem, name);

CREATE TABLE repo_graphs (
    repo_id TEXT NOT NULL PRIMARY KEY REFERENCES repos (id),
    commit_id TEXT NOT NULL,
    data BYTEA NOT NULL
);

-- advisories

CREATE TABLE advisories (
    id TEXT NOT NULL PRIMARY KEY,
    modified TEXT NOT NULL,
    -- The part of the record that matching needs, as JSON.
    data TEXT NOT NULL,
    -- The last synchronization that included it.
    generation BIGINT NOT NULL DEFAULT 0,
    -- The ecosystem whose feed brought it.
    feed TEXT NOT NULL
);
CREATE INDEX advisories_of_feed ON advisories (feed, generation);

-- Identifier and aliases: advisories that share one describe the same vulnerability.
CREATE TABLE advisory_names (
    name TEXT NOT NULL,
    advisory_id TEXT NOT NULL,
    PRIMARY KEY (name, advisory_id)
);
CREATE INDEX names_of_advisory ON advisory_names (advisory_id);

CREATE TABLE advisory_packages (
    ecosystem TEXT NOT NULL,
    name TEXT NOT NULL,
    advisory_id TEXT NOT NULL,
    PRIMARY KEY (ecosystem, name, advisory_id)
);
CREATE INDEX packages_of_advisory ON advisory_packages (advisory_id);

CREATE TABLE advisory_texts (
    advisory_id TEXT NOT NULL PRIMARY KEY,
    -- JSON: {details, references: [[kind, url], …], weaknesses}
    data TEXT NOT NULL
);

CREATE TABLE advisory_feeds (
    ecosystem TEXT NOT NULL PRIMARY KEY,
    source TEXT NOT NULL,
    -- The newest stored `modified`; the ETag of the archive.
    newest TEXT,
    etag TEXT,
    records BIGINT NOT NULL DEFAULT 0,
    generation BIGINT NOT NULL DEFAULT 0,
    synced_at BIGINT,
    checked_at BIGINT,
    due_at BIGINT NOT NULL DEFAULT 0,
    error TEXT,
    failures BIGINT NOT NULL DEFAULT 0,
    -- JSON: [{path, reason}, …]
    warnings TEXT NOT NULL DEFAULT '[]'
);

CREATE TABLE findings (
    id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL,
    repo_id TEXT NOT NULL REFERENCES repos (id),
    manifest TEXT NOT NULL,
    ecosystem TEXT NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    direct BOOLEAN NOT NULL,
    -- The main advisory of the group, and all of them with their aliases, as JSON.
    advisory_id TEXT NOT NULL,
    advisory_ids TEXT NOT NULL,
    -- low, medium, high, critical or unknown; the source of the severity.
    severity TEXT NOT NULL,
    score FLOAT,
    severity_source TEXT NOT NULL,
    summary TEXT NOT NULL,
    -- The version that fixes all findings of this package, or why there is none.
    fix_version TEXT,
    fix_reason TEXT NOT NULL,
    first_seen_at BIGINT NOT NULL,
    fixture BOOLEAN NOT NULL DEFAULT FALSE,
    -- 'yes', 'no' or 'unknown'.
    imported TEXT NOT NULL DEFAULT 'unknown',
    managed_by TEXT NOT NULL DEFAULT '',
    UNIQUE (repo_id, manifest, ecosystem, name, version, advisory_id)
);
CREATE INDEX findings_of_organization ON findings (organization_id, id);

-- Apart from `findings`, whose rows scans replace.
CREATE TABLE finding_decisions (
    repo_id TEXT NOT NULL REFERENCES repos (id),
    ecosystem TEXT NOT NULL,
    name TEXT NOT NULL,
    advisory_id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    -- dismissed or snoozed; why, as one of several reasons and in words.
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    note TEXT NOT NULL,
    -- When a snoozed vulnerability returns.
    until BIGINT,
    decided_by TEXT,
    decided_by_name TEXT NOT NULL,
    decided_at BIGINT NOT NULL,
    PRIMARY KEY (repo_id, ecosystem, name, advisory_id)
);
CREATE INDEX finding_decisions_until ON finding_decisions (until) WHERE until IS NOT NULL;

-- tickets

CREATE TABLE trackers (
    id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    -- "issues" (of the repository's own platform) or "jira".
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    url TEXT,
    -- The account of a Jira Cloud token; NULL if the token identifies it.
    account TEXT,
    sealed BYTEA,
    key_id TEXT,
    link_back BOOLEAN NOT NULL DEFAULT FALSE,
    error TEXT,
    checked_at BIGINT,
    created_at BIGINT NOT NULL,
    removed_at BIGINT
);
CREATE UNIQUE INDEX trackers_names ON trackers (organization_id, name) WHERE removed_at IS NULL;

-- jobs

CREATE TABLE jobs (
    id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    repo_id TEXT NOT NULL REFERENCES repos (id),
    repo TEXT NOT NULL,
    agent TEXT NOT NULL,
    ticket_id TEXT,
    config_override TEXT NOT NULL,
    status TEXT NOT NULL,
    attempt BIGINT NOT NULL DEFAULT 0,
    lost_workers BIGINT NOT NULL DEFAULT 0,
    cancel_requested_at BIGINT,
    created_at BIGINT NOT NULL,
    queued_at BIGINT NOT NULL,
    started_at BIGINT,
    completed_at BIGINT,
    base_commit TEXT,
    branch TEXT NOT NULL,
    head_commit TEXT,
    pr_url TEXT,
    pr_number BIGINT,
    error_code TEXT,
    error_message TEXT,
    usage TEXT,
    last_sequence BIGINT NOT NULL DEFAULT 0,
    prompt TEXT,
    verification TEXT,
    -- The identifier and the display name of the key or user that created the job.
    created_by TEXT,
    created_by_name TEXT,
    -- The job that this one follows up on.
    follows TEXT,
    -- JSON: why the service created the job.
    cause TEXT,
    -- JSON: {title, url, labels, tracker}, once the ticket was found.
    ticket TEXT,
    ticket_linked_at BIGINT,
    -- When the job's work was kept; the work itself is in kept_work until the job has ended.
    kept_at BIGINT,
    -- A JSON list of messages; NULL if there are none.
    warnings TEXT,
    -- Which snapshot the run used, as JSON.
    environment TEXT,
    -- As JSON; NULL: none.
    labels TEXT,
    -- As W3C Trace Context writes it; NULL: none.
    traceparent TEXT,
    -- JSON; NULL until a worker has started the job.
    phases TEXT
);
CREATE INDEX jobs_finished ON jobs (completed_at) WHERE completed_at IS NOT NULL;
CREATE INDEX jobs_finished_of_organization ON jobs (organization_id, completed_at)
    WHERE completed_at IS NOT NULL;
CREATE INDEX jobs_of_agent ON jobs (organization_id, agent, id);
CREATE INDEX jobs_of_organization ON jobs (organization_id, id);
CREATE INDEX jobs_of_pull ON jobs (repo_id, pr_number) WHERE pr_number IS NOT NULL;
CREATE INDEX jobs_of_repo ON jobs (organization_id, repo, id);
-- By expressions, so that queries for waiting jobs do not use this index.
CREATE INDEX jobs_of_status ON jobs ((organization_id || ''), (status || ''), id);
CREATE INDEX jobs_of_ticket ON jobs (organization_id, ticket_id, id) WHERE ticket_id IS NOT NULL;
CREATE INDEX jobs_that_follow ON jobs (follows) WHERE follows IS NOT NULL;

-- The jobs that have not ended: their places in the queue, and the claims on them. What changes
-- every few seconds is here, and not in the wide rows with many indexes that lists read.
CREATE TABLE job_queue (
    job_id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL,
    repo_id TEXT NOT NULL,
    agent TEXT NOT NULL,
    -- Milliseconds: when the job was created, earlier for high and later for low priority.
    queue_order BIGINT NOT NULL,
    fence BIGINT NOT NULL DEFAULT 0,
    lease_owner TEXT,
    lease_expires_at BIGINT,
    credential_hash BYTEA,
    -- The key of an outage in platform_outages: that of a tracker which did not respond.
    waits_for TEXT,
    environment_key TEXT
) /*postgresql WITH (fillfactor = 50) */;
CREATE UNIQUE INDEX job_queue_credential ON job_queue (credential_hash)
    WHERE credential_hash IS NOT NULL;
CREATE INDEX job_queue_leased ON job_queue (organization_id) WHERE lease_owner IS NOT NULL;
-- Without lists of rows in its entries, PostgreSQL soon skips those of jobs that were claimed.
CREATE INDEX job_queue_waiting_for_agent ON job_queue (agent, organization_id)
    /*postgresql WITH (deduplicate_items = off) */ WHERE lease_owner IS NULL;
CREATE INDEX job_queue_waiting_in_order ON job_queue (organization_id, queue_order, job_id)
    WHERE lease_owner IS NULL;

-- When each organization's jobs were claimed last, so that the one that waits longest is next.
CREATE TABLE claimed_organizations (
    organization_id TEXT NOT NULL PRIMARY KEY REFERENCES organizations (id),
    last_claimed_at BIGINT NOT NULL
);

CREATE TABLE job_artifacts (
    job_id TEXT NOT NULL,
    name TEXT NOT NULL,
    media_type TEXT NOT NULL,
    size_bytes BIGINT NOT NULL,
    content BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (job_id, name)
);

CREATE TABLE job_diffs (
    job_id TEXT NOT NULL PRIMARY KEY,
    -- The unified diff, compressed with zlib.
    content BYTEA NOT NULL,
    is_truncated BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL,
    -- NULL: stored by an earlier version.
    additions BIGINT,
    deletions BIGINT,
    files BIGINT
);

-- The same labels again, to find jobs by them.
CREATE TABLE job_labels (
    organization_id TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    job_id TEXT NOT NULL,
    PRIMARY KEY (organization_id, key, value, job_id)
);
CREATE INDEX job_labels_of_job ON job_labels (job_id);

CREATE TABLE job_logs (
    job_id TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (job_id, sequence)
);

CREATE TABLE job_reports (
    job_id TEXT NOT NULL PRIMARY KEY,
    markdown TEXT NOT NULL,
    -- JSON that fits the agent's schema; NULL: the agent has none.
    result TEXT,
    created_at BIGINT NOT NULL
);

CREATE TABLE job_steps (
    job_id TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    -- 'read', 'change', 'command', 'message', 'model' or 'other'.
    kind TEXT NOT NULL,
    -- 'running', 'succeeded', 'failed' or 'unfinished'.
    state TEXT NOT NULL,
    -- NULL: not reported.
    exit_code BIGINT,
    duration_ms BIGINT,
    cost_nanousd BIGINT,
    title TEXT NOT NULL,
    -- Last, because lists do not read it.
    detail TEXT NOT NULL,
    PRIMARY KEY (job_id, sequence)
);

CREATE TABLE idempotency_keys (
    organization_id TEXT NOT NULL,
    key TEXT NOT NULL,
    body_hash BYTEA NOT NULL,
    response BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organization_id, key)
);
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);

-- Fixes that were proposed, regardless of their outcome.
CREATE TABLE auto_triggers (
    repo_id TEXT NOT NULL REFERENCES repos (id),
    manifest TEXT NOT NULL,
    ecosystem TEXT NOT NULL,
    name TEXT NOT NULL,
    fix_version TEXT NOT NULL,
    job_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (repo_id, manifest, ecosystem, name, fix_version)
);

CREATE TABLE proposed_fixes (
    repo_id TEXT NOT NULL REFERENCES repos (id),
    manifest TEXT NOT NULL,
    ecosystem TEXT NOT NULL,
    name TEXT NOT NULL,
    fix_version TEXT NOT NULL,
    pull_number BIGINT NOT NULL,
    pull_url TEXT NOT NULL,
    PRIMARY KEY (repo_id, manifest, ecosystem, name, fix_version)
);

CREATE TABLE workers (
    id TEXT NOT NULL PRIMARY KEY,
    hostname TEXT NOT NULL,
    agents TEXT NOT NULL,
    slots BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    heartbeat_at BIGINT NOT NULL,
    -- Why this worker cannot run an agent, by the agent's id.
    unready TEXT NOT NULL DEFAULT '{}',
    version TEXT NOT NULL DEFAULT '',
    configuration_digest TEXT NOT NULL DEFAULT '',
    -- A JSON array of strings.
    tags TEXT NOT NULL DEFAULT '[]',
    drain_requested_at BIGINT,
    location TEXT,
    -- NULL: the process does not report it.
    disk_free_bytes BIGINT,
    disk_total_bytes BIGINT
);

CREATE TABLE kept_work (
    job_id TEXT NOT NULL PRIMARY KEY,
    base_commit TEXT NOT NULL,
    head_commit TEXT NOT NULL,
    bundle BYTEA NOT NULL
);

CREATE TABLE platform_outages (
    -- A connection, a repository, or `local` for the git server of this service.
    key TEXT NOT NULL PRIMARY KEY,
    since BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    retry_at BIGINT NOT NULL
);

CREATE TABLE lost_claims (
    job_id TEXT NOT NULL,
    fence BIGINT NOT NULL,
    worker_id TEXT NOT NULL,
    lost_at BIGINT NOT NULL,
    -- Whether the agent had started.
    started BOOLEAN NOT NULL,
    -- Whether the worker returned: it had only lost its connection to the database.
    was_alive BOOLEAN NOT NULL,
    -- 'worker', 'sandbox' or 'adoption'.
    kind TEXT NOT NULL DEFAULT 'worker',
    PRIMARY KEY (job_id, fence)
);
CREATE INDEX lost_claims_worker ON lost_claims (worker_id);

-- Jobs with this key are not claimed until then, except by workers at the location.
CREATE TABLE environment_holds (
    key TEXT NOT NULL PRIMARY KEY,
    repo_id TEXT NOT NULL,
    location TEXT,
    held_until BIGINT NOT NULL
);

-- platform_sync

-- The result of the last sync with the platform.
CREATE TABLE repo_sync (
    repo_id TEXT NOT NULL PRIMARY KEY REFERENCES repos (id),
    error TEXT,
    synced_at BIGINT,
    -- When the next full sync is due; until then only what hook events name is read.
    full_due_at BIGINT,
    hook_seen_at BIGINT
);

-- Deliveries of platforms' webhooks, for a day, so that each counts once.
CREATE TABLE platform_hints (
    id TEXT NOT NULL PRIMARY KEY,
    connection_id TEXT NOT NULL REFERENCES platform_connections (id),
    delivery_id TEXT NOT NULL,
    received_at BIGINT NOT NULL
);
CREATE INDEX platform_hints_age ON platform_hints (received_at);
CREATE UNIQUE INDEX platform_hints_deliveries ON platform_hints (connection_id, delivery_id);
CREATE INDEX platform_hints_of_connection ON platform_hints (connection_id, received_at);
