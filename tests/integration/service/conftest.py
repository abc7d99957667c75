from tests.support import service_fixtures

migrated_stores = service_fixtures.migrated_stores
service = service_fixtures.service
key = service_fixtures.key
api = service_fixtures.api
stoppable_postgres = service_fixtures.stoppable_postgres
agent_seconds = service_fixtures.agent_seconds
short_seconds = service_fixtures.short_seconds
start = service_fixtures.start
start_worker = service_fixtures.start_worker
