CREATE TABLE advisories (
    id text NOT NULL,
    modified text NOT NULL,
    data text NOT NULL,
    generation bigint DEFAULT 0 NOT NULL,
    feed text NOT NULL
);
CREATE TABLE advisory_feeds (
    ecosystem text NOT NULL,
    source text NOT NULL,
    newest text,
    etag text,
    records bigint DEFAULT 0 NOT NULL,
    generation bigint DEFAULT 0 NOT NULL,
    synced_at bigint,
    checked_at bigint,
    due_at bigint DEFAULT 0 NOT NULL,
    error text,
    failures bigint DEFAULT 0 NOT NULL,
    warnings text DEFAULT '[]'::text NOT NULL
);
CREATE TABLE advisory_names (
    name text NOT NULL,
    advisory_id text NOT NULL
);
CREATE TABLE advisory_packages (
    ecosystem text NOT NULL,
    name text NOT NULL,
    advisory_id text NOT NULL
);
CREATE TABLE advisory_texts (
    advisory_id text NOT NULL,
    data text NOT NULL
);
CREATE TABLE alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE api_keys (
    id text NOT NULL,
    organization_id text NOT NULL,
    name text NOT NULL,
    hint text NOT NULL,
    hash bytea NOT NULL,
    scope text NOT NULL,
    git_write boolean DEFAULT false NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint,
    last_used_at bigint,
    allowed_networks text
);
CREATE TABLE audit_log (
    id text NOT NULL,
    organization_id text NOT NULL,
    at bigint NOT NULL,
    actor_kind text NOT NULL,
    actor_id text,
    actor text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    details text DEFAULT '{}'::text NOT NULL,
    address text NOT NULL
);
CREATE TABLE auto_triggers (
    repo_id text NOT NULL,
    manifest text NOT NULL,
    ecosystem text NOT NULL,
    name text NOT NULL,
    fix_version text NOT NULL,
    job_id text NOT NULL,
    created_at bigint NOT NULL
);
CREATE TABLE daily_spending (
    organization_id text NOT NULL,
    day bigint NOT NULL,
    spent_nanousd bigint DEFAULT 0 NOT NULL
);
CREATE TABLE deliveries (
    id text NOT NULL,
    organization_id text NOT NULL,
    endpoint_id text NOT NULL,
    job_id text NOT NULL,
    sequence bigint NOT NULL,
    event_id text NOT NULL,
    event text NOT NULL,
    status text NOT NULL,
    attempts bigint DEFAULT 0 NOT NULL,
    failures bigint DEFAULT 0 NOT NULL,
    due_at bigint NOT NULL,
    created_at bigint NOT NULL,
    lease_owner text,
    lease_expires_at bigint,
    fence bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='5000');
CREATE TABLE delivery_attempts (
    delivery_id text NOT NULL,
    id text NOT NULL,
    at bigint NOT NULL,
    duration_ms bigint NOT NULL,
    status_code bigint,
    error_class text,
    error text,
    address text,
    request_headers text NOT NULL,
    response_headers text NOT NULL,
    response_body bytea NOT NULL
);
CREATE TABLE dependencies (
    repo_id text NOT NULL,
    "position" bigint NOT NULL,
    ecosystem text NOT NULL,
    name text NOT NULL,
    version text,
    requirement text NOT NULL,
    direct boolean NOT NULL,
    scope text NOT NULL,
    manifest text NOT NULL,
    parents text NOT NULL,
    purl text NOT NULL,
    fixture boolean DEFAULT false NOT NULL,
    imported text DEFAULT 'unknown'::text NOT NULL,
    managed_by text DEFAULT ''::text NOT NULL
);
CREATE TABLE effective_settings (
    name text NOT NULL,
    value text NOT NULL,
    updated_at bigint NOT NULL
);
CREATE TABLE environment_builds (
    id text NOT NULL,
    organization_id text NOT NULL,
    repo_id text NOT NULL,
    state text NOT NULL,
    reason text NOT NULL,
    location text,
    lease_until bigint,
    credential_hash bytea,
    branch text NOT NULL,
    commit_id text NOT NULL,
    request_key text NOT NULL,
    key text NOT NULL,
    generation bigint NOT NULL,
    cache_files text NOT NULL,
    image text NOT NULL,
    image_digest text NOT NULL,
    size_bytes bigint NOT NULL,
    setup_ms bigint NOT NULL,
    hits bigint NOT NULL,
    error text NOT NULL,
    log text NOT NULL,
    created_at bigint NOT NULL,
    finished_at bigint,
    used_at bigint
);
CREATE TABLE environment_holds (
    key text NOT NULL,
    repo_id text NOT NULL,
    location text,
    held_until bigint NOT NULL
);
CREATE TABLE environment_secrets (
    organization_id text NOT NULL,
    repo_id text NOT NULL,
    name text NOT NULL,
    purpose text NOT NULL,
    host text NOT NULL,
    usage text NOT NULL,
    sealed bytea NOT NULL,
    key_id text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE TABLE event_positions (
    organization_id text NOT NULL,
    last_position bigint NOT NULL
);
CREATE TABLE events (
    job_id text NOT NULL,
    sequence bigint NOT NULL,
    id text NOT NULL,
    event text NOT NULL,
    body bytea NOT NULL,
    created_at bigint NOT NULL,
    organization_id text,
    "position" bigint
);
CREATE TABLE finding_decisions (
    repo_id text NOT NULL,
    ecosystem text NOT NULL,
    name text NOT NULL,
    advisory_id text NOT NULL,
    organization_id text NOT NULL,
    state text NOT NULL,
    reason text NOT NULL,
    note text NOT NULL,
    until bigint,
    decided_by text,
    decided_by_name text NOT NULL,
    decided_at bigint NOT NULL
);
CREATE TABLE findings (
    id text NOT NULL,
    organization_id text NOT NULL,
    repo_id text NOT NULL,
    manifest text NOT NULL,
    ecosystem text NOT NULL,
    name text NOT NULL,
    version text NOT NULL,
    direct boolean NOT NULL,
    advisory_id text NOT NULL,
    advisory_ids text NOT NULL,
    severity text NOT NULL,
    score double precision,
    severity_source text NOT NULL,
    summary text NOT NULL,
    fix_version text,
    fix_reason text NOT NULL,
    first_seen_at bigint NOT NULL,
    fixture boolean DEFAULT false NOT NULL,
    imported text DEFAULT 'unknown'::text NOT NULL,
    managed_by text DEFAULT ''::text NOT NULL
);
CREATE TABLE finished_branches (
    repo_id text NOT NULL,
    branch text NOT NULL,
    head_commit text NOT NULL,
    due_at bigint NOT NULL,
    failures bigint NOT NULL
);
CREATE TABLE forge_connections (
    id text NOT NULL,
    organization_id text NOT NULL,
    platform text NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    url text NOT NULL,
    app_id text,
    installation_id text,
    account text,
    sealed bytea NOT NULL,
    key_id text NOT NULL,
    hook_sealed bytea NOT NULL,
    hook_key_id text NOT NULL,
    error text,
    checked_at bigint,
    hook_seen_at bigint,
    away_failures bigint DEFAULT 0 NOT NULL,
    resting_until bigint,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    removed_at bigint,
    commit_name text,
    commit_email text,
    signing text DEFAULT 'none'::text NOT NULL,
    signing_sealed bytea,
    signing_key_id text DEFAULT ''::text NOT NULL,
    signing_public_key text
);
CREATE TABLE forge_hints (
    id text NOT NULL,
    connection_id text NOT NULL,
    delivery_id text NOT NULL,
    kind text NOT NULL,
    external_id text,
    number bigint,
    received_at bigint NOT NULL,
    due_at bigint,
    tries bigint DEFAULT 0 NOT NULL,
    error text
);
CREATE TABLE idempotency_keys (
    organization_id text NOT NULL,
    key text NOT NULL,
    body_hash bytea NOT NULL,
    response bytea NOT NULL,
    created_at bigint NOT NULL
);
CREATE TABLE invitations (
    id text NOT NULL,
    organization_id text NOT NULL,
    email text NOT NULL,
    role text NOT NULL,
    hash bytea NOT NULL,
    invited_by text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    accepted_at bigint,
    revoked_at bigint
);
CREATE TABLE job_artifacts (
    job_id text NOT NULL,
    name text NOT NULL,
    media_type text NOT NULL,
    size_bytes bigint NOT NULL,
    content bytea NOT NULL,
    created_at bigint NOT NULL
);
CREATE TABLE job_diffs (
    job_id text NOT NULL,
    content bytea NOT NULL,
    is_truncated boolean NOT NULL,
    created_at bigint NOT NULL,
    additions bigint,
    deletions bigint,
    files bigint
);
CREATE TABLE job_labels (
    organization_id text NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    job_id text NOT NULL
);
CREATE TABLE job_logs (
    job_id text NOT NULL,
    sequence bigint NOT NULL,
    created_at bigint NOT NULL,
    text text NOT NULL
);
CREATE TABLE job_reports (
    job_id text NOT NULL,
    markdown text NOT NULL,
    result text,
    created_at bigint NOT NULL
);
CREATE TABLE job_spending (
    job_id text NOT NULL,
    spent_nanousd bigint DEFAULT 0 NOT NULL,
    input_tokens bigint DEFAULT 0 NOT NULL,
    output_tokens bigint DEFAULT 0 NOT NULL,
    requests bigint DEFAULT 0 NOT NULL
);
CREATE TABLE job_steps (
    job_id text NOT NULL,
    sequence bigint NOT NULL,
    started_at bigint NOT NULL,
    kind text NOT NULL,
    state text NOT NULL,
    exit_code bigint,
    duration_ms bigint,
    cost_nanousd bigint,
    title text NOT NULL,
    detail text NOT NULL
);
CREATE TABLE jobs (
    id text NOT NULL,
    organization_id text NOT NULL,
    repo_id text NOT NULL,
    repo text NOT NULL,
    agent text NOT NULL,
    ticket_id text,
    config_override text NOT NULL,
    status text NOT NULL,
    attempt bigint DEFAULT 0 NOT NULL,
    lost_workers bigint DEFAULT 0 NOT NULL,
    fence bigint DEFAULT 0 NOT NULL,
    lease_owner text,
    lease_expires_at bigint,
    credential_hash bytea,
    cancel_requested_at bigint,
    created_at bigint NOT NULL,
    queued_at bigint NOT NULL,
    started_at bigint,
    completed_at bigint,
    base_commit text,
    branch text NOT NULL,
    head_commit text,
    pr_url text,
    pr_number bigint,
    error_code text,
    error_message text,
    usage text,
    last_sequence bigint DEFAULT 0 NOT NULL,
    prompt text,
    verification text,
    created_by text,
    created_by_name text,
    follows text,
    cause text,
    ticket text,
    ticket_linked_at bigint,
    queue_order bigint DEFAULT '0'::bigint NOT NULL,
    kept_at bigint,
    waits_for text,
    warnings text,
    environment_key text,
    environment text,
    labels text,
    traceparent text,
    phases text
);
CREATE TABLE kept_work (
    job_id text NOT NULL,
    base_commit text NOT NULL,
    head_commit text NOT NULL,
    bundle bytea NOT NULL
);
CREATE TABLE leases (
    name text NOT NULL,
    held_until bigint NOT NULL,
    due_at bigint DEFAULT '0'::bigint NOT NULL
);
CREATE TABLE lost_claims (
    job_id text NOT NULL,
    fence bigint NOT NULL,
    worker_id text NOT NULL,
    lost_at bigint NOT NULL,
    started boolean NOT NULL,
    was_alive boolean NOT NULL,
    kind text DEFAULT 'worker'::text NOT NULL
);
CREATE TABLE memberships (
    organization_id text NOT NULL,
    user_id text NOT NULL,
    role text NOT NULL,
    created_at bigint NOT NULL
);
CREATE TABLE organizations (
    id text NOT NULL,
    name text NOT NULL,
    plan text NOT NULL,
    last_claimed_at bigint,
    created_at bigint NOT NULL,
    daily_budget_nanousd bigint,
    job_budget_nanousd bigint,
    auto_trigger text,
    paused_at bigint,
    setup_network text
);
CREATE TABLE platform_outages (
    key text NOT NULL,
    since bigint NOT NULL,
    failures bigint NOT NULL,
    retry_at bigint NOT NULL
);
CREATE TABLE processes (
    id text NOT NULL,
    role text NOT NULL,
    hostname text NOT NULL,
    version text NOT NULL,
    configuration_digest text NOT NULL,
    repositories_problem text,
    started_at bigint NOT NULL,
    heartbeat_at bigint NOT NULL,
    disk_free_bytes bigint,
    disk_total_bytes bigint
);
CREATE TABLE proposed_fixes (
    repo_id text NOT NULL,
    manifest text NOT NULL,
    ecosystem text NOT NULL,
    name text NOT NULL,
    fix_version text NOT NULL,
    pull_number bigint NOT NULL,
    pull_url text NOT NULL
);
CREATE TABLE pull_comments (
    id text NOT NULL,
    repo_id text NOT NULL,
    number bigint NOT NULL,
    author_id text,
    author text NOT NULL,
    body text NOT NULL,
    created_at bigint NOT NULL,
    path text,
    line bigint,
    side text,
    commit_id text,
    code text,
    reply_to text,
    job_id text,
    resolved_at bigint,
    resolved_by text
);
CREATE TABLE pull_statuses (
    repo_id text NOT NULL,
    number bigint NOT NULL,
    job_id text NOT NULL,
    due_at bigint,
    failures bigint NOT NULL,
    error text,
    written_job_id text NOT NULL,
    head_commit text NOT NULL,
    state text NOT NULL,
    written_at bigint
);
CREATE TABLE pull_views (
    repo_id text NOT NULL,
    number bigint NOT NULL,
    user_id text NOT NULL,
    file_key text NOT NULL,
    blob_id text NOT NULL,
    viewed_at bigint NOT NULL
);
CREATE TABLE pulls (
    repo_id text NOT NULL,
    number bigint NOT NULL,
    title text NOT NULL,
    body text NOT NULL,
    head_branch text NOT NULL,
    base_branch text NOT NULL,
    head_commit text NOT NULL,
    base_commit text NOT NULL,
    state text NOT NULL,
    draft boolean DEFAULT false NOT NULL,
    merge_commit text,
    created_at bigint NOT NULL,
    merged_at bigint,
    closed_at bigint,
    ended_by text,
    url text,
    comment_seen bigint DEFAULT 0 NOT NULL,
    asked_at bigint,
    told_at bigint,
    missing_looks bigint DEFAULT 0 NOT NULL,
    line_comment_seen bigint,
    review_seen bigint
);
CREATE TABLE repo_environments (
    repo_id text NOT NULL,
    organization_id text NOT NULL,
    definition text,
    trusted_branches text NOT NULL,
    generation bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE TABLE repo_graphs (
    repo_id text NOT NULL,
    commit_id text NOT NULL,
    data bytea NOT NULL
);
CREATE TABLE repo_hooks (
    repo_id text NOT NULL,
    sealed bytea NOT NULL,
    key_id text NOT NULL,
    state text NOT NULL,
    note text,
    delivery text NOT NULL,
    is_failing boolean NOT NULL,
    failures bigint NOT NULL,
    checked_at bigint,
    due_at bigint NOT NULL,
    removal_due_at bigint
);
CREATE TABLE repo_imports (
    id text NOT NULL,
    organization_id text NOT NULL,
    full_name text NOT NULL,
    source text NOT NULL,
    state text NOT NULL,
    message text,
    started_by text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    lease_until bigint
);
CREATE TABLE repos (
    id text NOT NULL,
    organization_id text NOT NULL,
    full_name text NOT NULL,
    platform text NOT NULL,
    source text NOT NULL,
    default_branch text NOT NULL,
    head_commit text NOT NULL,
    index_status text NOT NULL,
    line_count bigint DEFAULT 0 NOT NULL,
    indexed_commit text,
    index_done bigint DEFAULT 0 NOT NULL,
    index_total bigint,
    index_error text,
    index_failures bigint DEFAULT 0 NOT NULL,
    index_due_at bigint,
    next_pull_number bigint DEFAULT 1 NOT NULL,
    created_at bigint NOT NULL,
    disconnected_at bigint,
    lifted_paths text DEFAULT '[]'::text NOT NULL,
    languages text DEFAULT '[]'::text NOT NULL,
    index_warnings text DEFAULT '[]'::text NOT NULL,
    index_fingerprint text,
    dependencies_digest text,
    configured_trigger text,
    auto_trigger text,
    scan_due_at bigint,
    scanned_at bigint,
    scan_error text,
    connection_id text,
    external_id text,
    sync_due_at bigint,
    sync_failures bigint DEFAULT 0 NOT NULL,
    sync_error text,
    synced_at bigint,
    whole_due_at bigint,
    told_at bigint,
    hook_seen_at bigint,
    index_lease_until bigint,
    sync_lease_until bigint,
    required_tags text DEFAULT '[]'::text NOT NULL,
    max_concurrent_jobs integer,
    configured_grouping text
);
CREATE TABLE secrets (
    organization_id text NOT NULL,
    name text NOT NULL,
    sealed bytea NOT NULL,
    key_id text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE TABLE sessions (
    hash bytea NOT NULL,
    user_id text NOT NULL,
    organization_id text NOT NULL,
    created_at bigint NOT NULL,
    seen_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    address text NOT NULL,
    user_agent text NOT NULL
);
CREATE TABLE sign_in_failures (
    subject text NOT NULL,
    failures bigint NOT NULL,
    since bigint NOT NULL
);
CREATE TABLE sign_in_links (
    hash bytea NOT NULL,
    user_id text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    purpose text DEFAULT 'sign_in'::text NOT NULL,
    organization_id text,
    created_by text
);
CREATE TABLE trackers (
    id text NOT NULL,
    organization_id text NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    url text,
    account text,
    sealed bytea,
    key_id text,
    link_back boolean DEFAULT false NOT NULL,
    error text,
    checked_at bigint,
    created_at bigint NOT NULL,
    removed_at bigint
);
CREATE TABLE used_form_tokens (
    hash bytea NOT NULL,
    used_at bigint NOT NULL
);
CREATE TABLE users (
    id text NOT NULL,
    email text NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    password_hash text,
    oidc_issuer text,
    oidc_subject text,
    created_at bigint NOT NULL,
    last_sign_in_at bigint,
    is_operator boolean DEFAULT false NOT NULL
);
CREATE TABLE webhook_endpoints (
    id text NOT NULL,
    organization_id text NOT NULL,
    url text NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    events text DEFAULT '[]'::text NOT NULL,
    sealed bytea NOT NULL,
    key_id text NOT NULL,
    pending_sealed bytea,
    pending_key_id text,
    promote_at bigint,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    disabled_at bigint,
    disabled_reason text,
    last_success_at bigint,
    last_failure_at bigint,
    failing_since bigint,
    removed_at bigint
);
CREATE TABLE workers (
    id text NOT NULL,
    hostname text NOT NULL,
    agents text NOT NULL,
    slots bigint NOT NULL,
    started_at bigint NOT NULL,
    heartbeat_at bigint NOT NULL,
    unready text DEFAULT '{}'::text NOT NULL,
    version text DEFAULT ''::text NOT NULL,
    configuration_digest text DEFAULT ''::text NOT NULL,
    tags text DEFAULT '[]'::text NOT NULL,
    drain_requested_at bigint,
    location text,
    disk_free_bytes bigint,
    disk_total_bytes bigint
);
ALTER TABLE ONLY advisories
    ADD CONSTRAINT advisories_pkey PRIMARY KEY (id);
ALTER TABLE ONLY advisory_feeds
    ADD CONSTRAINT advisory_feeds_pkey PRIMARY KEY (ecosystem);
ALTER TABLE ONLY advisory_names
    ADD CONSTRAINT advisory_names_pkey PRIMARY KEY (name, advisory_id);
ALTER TABLE ONLY advisory_packages
    ADD CONSTRAINT advisory_packages_pkey PRIMARY KEY (ecosystem, name, advisory_id);
ALTER TABLE ONLY advisory_texts
    ADD CONSTRAINT advisory_texts_pkey PRIMARY KEY (advisory_id);
ALTER TABLE ONLY alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY api_keys
    ADD CONSTRAINT api_keys_hash_key UNIQUE (hash);
ALTER TABLE ONLY api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (id);
ALTER TABLE ONLY audit_log
    ADD CONSTRAINT audit_log_pkey PRIMARY KEY (id);
ALTER TABLE ONLY auto_triggers
    ADD CONSTRAINT auto_triggers_pkey PRIMARY KEY (repo_id, manifest, ecosystem, name, fix_version);
ALTER TABLE ONLY daily_spending
    ADD CONSTRAINT daily_spending_pkey PRIMARY KEY (organization_id, day);
ALTER TABLE ONLY deliveries
    ADD CONSTRAINT deliveries_pkey PRIMARY KEY (id);
ALTER TABLE ONLY delivery_attempts
    ADD CONSTRAINT delivery_attempts_pkey PRIMARY KEY (delivery_id, id);
ALTER TABLE ONLY dependencies
    ADD CONSTRAINT dependencies_pkey PRIMARY KEY (repo_id, "position");
ALTER TABLE ONLY effective_settings
    ADD CONSTRAINT effective_settings_pkey PRIMARY KEY (name);
ALTER TABLE ONLY environment_builds
    ADD CONSTRAINT environment_builds_pkey PRIMARY KEY (id);
ALTER TABLE ONLY environment_holds
    ADD CONSTRAINT environment_holds_pkey PRIMARY KEY (key);
ALTER TABLE ONLY environment_secrets
    ADD CONSTRAINT environment_secrets_pkey PRIMARY KEY (organization_id, repo_id, name);
ALTER TABLE ONLY event_positions
    ADD CONSTRAINT event_positions_pkey PRIMARY KEY (organization_id);
ALTER TABLE ONLY events
    ADD CONSTRAINT events_pkey PRIMARY KEY (job_id, sequence);
ALTER TABLE ONLY finding_decisions
    ADD CONSTRAINT finding_decisions_pkey PRIMARY KEY (repo_id, ecosystem, name, advisory_id);
ALTER TABLE ONLY findings
    ADD CONSTRAINT findings_pkey PRIMARY KEY (id);
ALTER TABLE ONLY findings
    ADD CONSTRAINT findings_repo_id_manifest_ecosystem_name_version_advisory_i_key UNIQUE (repo_id, manifest, ecosystem, name, version, advisory_id);
ALTER TABLE ONLY finished_branches
    ADD CONSTRAINT finished_branches_pkey PRIMARY KEY (repo_id, branch);
ALTER TABLE ONLY forge_connections
    ADD CONSTRAINT forge_connections_pkey PRIMARY KEY (id);
ALTER TABLE ONLY forge_hints
    ADD CONSTRAINT forge_hints_pkey PRIMARY KEY (id);
ALTER TABLE ONLY idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (organization_id, key);
ALTER TABLE ONLY invitations
    ADD CONSTRAINT invitations_hash_key UNIQUE (hash);
ALTER TABLE ONLY invitations
    ADD CONSTRAINT invitations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY job_artifacts
    ADD CONSTRAINT job_artifacts_pkey PRIMARY KEY (job_id, name);
ALTER TABLE ONLY job_diffs
    ADD CONSTRAINT job_diffs_pkey PRIMARY KEY (job_id);
ALTER TABLE ONLY job_labels
    ADD CONSTRAINT job_labels_pkey PRIMARY KEY (organization_id, key, value, job_id);
ALTER TABLE ONLY job_logs
    ADD CONSTRAINT job_logs_pkey PRIMARY KEY (job_id, sequence);
ALTER TABLE ONLY job_reports
    ADD CONSTRAINT job_reports_pkey PRIMARY KEY (job_id);
ALTER TABLE ONLY job_spending
    ADD CONSTRAINT job_spending_pkey PRIMARY KEY (job_id);
ALTER TABLE ONLY job_steps
    ADD CONSTRAINT job_steps_pkey PRIMARY KEY (job_id, sequence);
ALTER TABLE ONLY jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY kept_work
    ADD CONSTRAINT kept_work_pkey PRIMARY KEY (job_id);
ALTER TABLE ONLY leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (name);
ALTER TABLE ONLY lost_claims
    ADD CONSTRAINT lost_claims_pkey PRIMARY KEY (job_id, fence);
ALTER TABLE ONLY memberships
    ADD CONSTRAINT memberships_pkey PRIMARY KEY (organization_id, user_id);
ALTER TABLE ONLY organizations
    ADD CONSTRAINT organizations_name_key UNIQUE (name);
ALTER TABLE ONLY organizations
    ADD CONSTRAINT organizations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY platform_outages
    ADD CONSTRAINT platform_outages_pkey PRIMARY KEY (key);
ALTER TABLE ONLY processes
    ADD CONSTRAINT processes_pkey PRIMARY KEY (id);
ALTER TABLE ONLY proposed_fixes
    ADD CONSTRAINT proposed_fixes_pkey PRIMARY KEY (repo_id, manifest, ecosystem, name, fix_version);
ALTER TABLE ONLY pull_comments
    ADD CONSTRAINT pull_comments_pkey PRIMARY KEY (id);
ALTER TABLE ONLY pull_statuses
    ADD CONSTRAINT pull_statuses_pkey PRIMARY KEY (repo_id, number);
ALTER TABLE ONLY pull_views
    ADD CONSTRAINT pull_views_pkey PRIMARY KEY (repo_id, number, user_id, file_key);
ALTER TABLE ONLY pulls
    ADD CONSTRAINT pulls_pkey PRIMARY KEY (repo_id, number);
ALTER TABLE ONLY repo_environments
    ADD CONSTRAINT repo_environments_pkey PRIMARY KEY (repo_id);
ALTER TABLE ONLY repo_graphs
    ADD CONSTRAINT repo_graphs_pkey PRIMARY KEY (repo_id);
ALTER TABLE ONLY repo_hooks
    ADD CONSTRAINT repo_hooks_pkey PRIMARY KEY (repo_id);
ALTER TABLE ONLY repo_imports
    ADD CONSTRAINT repo_imports_pkey PRIMARY KEY (id);
ALTER TABLE ONLY repos
    ADD CONSTRAINT repos_pkey PRIMARY KEY (id);
ALTER TABLE ONLY secrets
    ADD CONSTRAINT secrets_pkey PRIMARY KEY (organization_id, name);
ALTER TABLE ONLY sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (hash);
ALTER TABLE ONLY sign_in_failures
    ADD CONSTRAINT sign_in_failures_pkey PRIMARY KEY (subject);
ALTER TABLE ONLY sign_in_links
    ADD CONSTRAINT sign_in_links_pkey PRIMARY KEY (hash);
ALTER TABLE ONLY trackers
    ADD CONSTRAINT trackers_pkey PRIMARY KEY (id);
ALTER TABLE ONLY used_form_tokens
    ADD CONSTRAINT used_form_tokens_pkey PRIMARY KEY (hash);
ALTER TABLE ONLY users
    ADD CONSTRAINT users_email_key UNIQUE (email);
ALTER TABLE ONLY users
    ADD CONSTRAINT users_pkey PRIMARY KEY (id);
ALTER TABLE ONLY webhook_endpoints
    ADD CONSTRAINT webhook_endpoints_pkey PRIMARY KEY (id);
ALTER TABLE ONLY workers
    ADD CONSTRAINT workers_pkey PRIMARY KEY (id);
CREATE INDEX advisories_of_feed ON advisories USING btree (feed, generation);
CREATE INDEX audit_log_of_organization ON audit_log USING btree (organization_id, id);
CREATE INDEX comments_of_pull ON pull_comments USING btree (repo_id, number, id);
CREATE INDEX deliveries_first ON deliveries USING btree (organization_id, endpoint_id, id) WHERE ((status = 'pending'::text) AND (lease_owner IS NULL) AND (attempts = 0));
CREATE INDEX deliveries_leased ON deliveries USING btree (lease_expires_at) WHERE (lease_owner IS NOT NULL);
CREATE INDEX deliveries_of_endpoint ON deliveries USING btree (endpoint_id, ((status || ''::text)), id);
CREATE INDEX deliveries_of_job ON deliveries USING btree (job_id, endpoint_id, sequence);
CREATE INDEX deliveries_of_organization ON deliveries USING btree (organization_id, ((status || ''::text)), id);
CREATE INDEX deliveries_retry ON deliveries USING btree (organization_id, endpoint_id, due_at) WHERE ((status = 'pending'::text) AND (lease_owner IS NULL) AND (attempts > 0));
CREATE INDEX dependencies_by_name ON dependencies USING btree (ecosystem, name);
CREATE INDEX environment_builds_repo ON environment_builds USING btree (repo_id, request_key);
CREATE INDEX environment_builds_state ON environment_builds USING btree (state, lease_until);
CREATE UNIQUE INDEX events_listed ON events USING btree (organization_id, "position") WHERE ("position" IS NOT NULL);
CREATE INDEX events_unlisted ON events USING btree (organization_id, created_at) WHERE ((organization_id IS NOT NULL) AND ("position" IS NULL));
CREATE INDEX finding_decisions_until ON finding_decisions USING btree (until) WHERE (until IS NOT NULL);
CREATE INDEX findings_of_organization ON findings USING btree (organization_id, id);
CREATE UNIQUE INDEX forge_connections_names ON forge_connections USING btree (organization_id, name) WHERE (removed_at IS NULL);
CREATE INDEX forge_hints_age ON forge_hints USING btree (received_at);
CREATE UNIQUE INDEX forge_hints_deliveries ON forge_hints USING btree (connection_id, delivery_id);
CREATE INDEX forge_hints_due ON forge_hints USING btree (due_at) WHERE (due_at IS NOT NULL);
CREATE INDEX forge_hints_of_connection ON forge_hints USING btree (connection_id, received_at);
CREATE INDEX idempotency_keys_age ON idempotency_keys USING btree (created_at);
CREATE INDEX invitations_of_organization ON invitations USING btree (organization_id, id);
CREATE INDEX job_labels_of_job ON job_labels USING btree (job_id);
CREATE UNIQUE INDEX jobs_credential ON jobs USING btree (credential_hash) WHERE (credential_hash IS NOT NULL);
CREATE INDEX jobs_finished ON jobs USING btree (completed_at) WHERE (completed_at IS NOT NULL);
CREATE INDEX jobs_finished_of_organization ON jobs USING btree (organization_id, completed_at) WHERE (completed_at IS NOT NULL);
CREATE INDEX jobs_leased ON jobs USING btree (organization_id) WHERE (lease_owner IS NOT NULL);
CREATE INDEX jobs_of_agent ON jobs USING btree (organization_id, agent, id);
CREATE INDEX jobs_of_organization ON jobs USING btree (organization_id, id);
CREATE INDEX jobs_of_pull ON jobs USING btree (repo_id, pr_number) WHERE (pr_number IS NOT NULL);
CREATE INDEX jobs_of_repo ON jobs USING btree (organization_id, repo, id);
CREATE INDEX jobs_of_status ON jobs USING btree (((organization_id || ''::text)), ((status || ''::text)), id);
CREATE INDEX jobs_of_ticket ON jobs USING btree (organization_id, ticket_id, id) WHERE (ticket_id IS NOT NULL);
CREATE INDEX jobs_that_follow ON jobs USING btree (follows) WHERE (follows IS NOT NULL);
CREATE INDEX jobs_waiting_for_agent ON jobs USING btree (agent, organization_id) WHERE ((status = 'queued'::text) AND (lease_owner IS NULL));
CREATE INDEX jobs_waiting_in_order ON jobs USING btree (organization_id, queue_order, id) WHERE ((status = 'queued'::text) AND (lease_owner IS NULL));
CREATE INDEX lost_claims_worker ON lost_claims USING btree (worker_id);
CREATE INDEX memberships_of_user ON memberships USING btree (user_id);
CREATE INDEX names_of_advisory ON advisory_names USING btree (advisory_id);
CREATE INDEX packages_of_advisory ON advisory_packages USING btree (advisory_id);
CREATE INDEX pull_statuses_due ON pull_statuses USING btree (due_at);
CREATE INDEX pull_views_by_time ON pull_views USING btree (viewed_at);
CREATE INDEX pulls_by_time ON pulls USING btree (repo_id, created_at, number, state);
CREATE INDEX pulls_followed ON pulls USING btree (repo_id, state) WHERE (state <> 'merged'::text);
CREATE UNIQUE INDEX pulls_of_branch ON pulls USING btree (repo_id, head_branch);
CREATE INDEX pulls_told ON pulls USING btree (repo_id) WHERE (told_at IS NOT NULL);
CREATE INDEX repo_hooks_removal ON repo_hooks USING btree (removal_due_at);
CREATE INDEX repo_imports_of_organization ON repo_imports USING btree (organization_id, id);
CREATE UNIQUE INDEX repos_connected ON repos USING btree (organization_id, full_name) WHERE (disconnected_at IS NULL);
CREATE INDEX repos_index_due ON repos USING btree (index_due_at) WHERE (index_due_at IS NOT NULL);
CREATE INDEX repos_limited ON repos USING btree (id) WHERE (max_concurrent_jobs IS NOT NULL);
CREATE UNIQUE INDEX repos_of_connection ON repos USING btree (connection_id, external_id) WHERE ((connection_id IS NOT NULL) AND (disconnected_at IS NULL));
CREATE INDEX repos_scan_due ON repos USING btree (scan_due_at) WHERE (scan_due_at IS NOT NULL);
CREATE INDEX repos_sync_due ON repos USING btree (sync_due_at) WHERE (sync_due_at IS NOT NULL);
CREATE INDEX sessions_of_user ON sessions USING btree (user_id);
CREATE UNIQUE INDEX trackers_names ON trackers USING btree (organization_id, name) WHERE (removed_at IS NULL);
CREATE UNIQUE INDEX users_of_provider ON users USING btree (oidc_issuer, oidc_subject) WHERE (oidc_subject IS NOT NULL);
CREATE INDEX webhook_endpoints_of_organization ON webhook_endpoints USING btree (organization_id, id) WHERE (removed_at IS NULL);
ALTER TABLE ONLY api_keys
    ADD CONSTRAINT api_keys_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id);
ALTER TABLE ONLY audit_log
    ADD CONSTRAINT audit_log_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id);
ALTER TABLE ONLY auto_triggers
    ADD CONSTRAINT auto_triggers_repo_id_fkey FOREIGN KEY (repo_id) REFERENCES repos(id);
ALTER TABLE ONLY daily_spending
    ADD CONSTRAINT daily_spending_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id);
ALTER TABLE ONLY dependencies
    ADD CONSTRAINT dependencies_repo_id_fkey FOREIGN KEY (repo_id) REFERENCES repos(id);
ALTER TABLE ONLY finding_decisions
    ADD CONSTRAINT finding_decisions_repo_id_fkey FOREIGN KEY (repo_id) REFERENCES repos(id);
ALTER TABLE ONLY findings
    ADD CONSTRAINT findings_repo_id_fkey FOREIGN KEY (repo_id) REFERENCES repos(id);
ALTER TABLE ONLY forge_connections
    ADD CONSTRAINT forge_connections_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id);
ALTER TABLE ONLY forge_hints
    ADD CONSTRAINT forge_hints_connection_id_fkey FOREIGN KEY (connection_id) REFERENCES forge_connections(id);
ALTER TABLE ONLY invitations
    ADD CONSTRAINT invitations_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id);
ALTER TABLE ONLY jobs
    ADD CONSTRAINT jobs_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id);
ALTER TABLE ONLY jobs
    ADD CONSTRAINT jobs_repo_id_fkey FOREIGN KEY (repo_id) REFERENCES repos(id);
ALTER TABLE ONLY memberships
    ADD CONSTRAINT memberships_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id);
ALTER TABLE ONLY memberships
    ADD CONSTRAINT memberships_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id);
ALTER TABLE ONLY proposed_fixes
    ADD CONSTRAINT proposed_fixes_repo_id_fkey FOREIGN KEY (repo_id) REFERENCES repos(id);
ALTER TABLE ONLY pull_comments
    ADD CONSTRAINT pull_comments_repo_id_fkey FOREIGN KEY (repo_id) REFERENCES repos(id);
ALTER TABLE ONLY pull_views
    ADD CONSTRAINT pull_views_repo_id_fkey FOREIGN KEY (repo_id) REFERENCES repos(id);
ALTER TABLE ONLY pulls
    ADD CONSTRAINT pulls_repo_id_fkey FOREIGN KEY (repo_id) REFERENCES repos(id);
ALTER TABLE ONLY repo_graphs
    ADD CONSTRAINT repo_graphs_repo_id_fkey FOREIGN KEY (repo_id) REFERENCES repos(id);
ALTER TABLE ONLY repo_imports
    ADD CONSTRAINT repo_imports_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id);
ALTER TABLE ONLY repos
    ADD CONSTRAINT repos_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id);
ALTER TABLE ONLY secrets
    ADD CONSTRAINT secrets_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id);
ALTER TABLE ONLY sessions
    ADD CONSTRAINT sessions_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id);
ALTER TABLE ONLY sessions
    ADD CONSTRAINT sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id);
ALTER TABLE ONLY sign_in_links
    ADD CONSTRAINT sign_in_links_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id);
ALTER TABLE ONLY trackers
    ADD CONSTRAINT trackers_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id);
ALTER TABLE ONLY webhook_endpoints
    ADD CONSTRAINT webhook_endpoints_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id);
INSERT INTO alembic_version VALUES ('0039');
