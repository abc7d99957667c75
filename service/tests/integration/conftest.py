from tests.support import store_fixtures

database = store_fixtures.database
