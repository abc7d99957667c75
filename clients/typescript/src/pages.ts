/** Iterates over the items of listings. */

import { NotSupported, UnexpectedResponse } from "./errors.js";

interface Page {
  next_cursor: string | null;
  warnings?: readonly string[];
}

/** Every item of every page; a page is fetched when it is needed. */
export async function* itemsOf<P extends Page, Item>(
  fetchPage: (cursor: string | undefined) => Promise<P>,
  items: (page: P) => readonly Item[],
): AsyncGenerator<Item, void, undefined> {
  let cursor: string | undefined;
  do {
    const page: P = await fetchPage(cursor);
    yield* items(page);
    if (page.next_cursor === cursor) {
      throw new UnexpectedResponse("the service returned the same page again; report this to its operator", 200);
    }
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
}

/** A listing that ignores a filter contains items that the caller did not ask for. */
export function checkFilters<P extends Page>(page: P, query: object): P {
  for (const warning of page.warnings ?? []) {
    if (Object.keys(query).some((name) => warning.includes(`\`${name}\` was ignored`))) {
      const message = `${warning} The service is older than this client.`;
      throw new NotSupported(message, 200, "filter_ignored", null, null, null);
    }
  }
  return page;
}

/** An array of the items of a listing, of at most `limit` if it is given. */
export async function collect<Item>(items: AsyncIterable<Item>, limit = Infinity): Promise<Item[]> {
  const collected: Item[] = [];
  if (limit <= 0) return collected;
  for await (const item of items) {
    collected.push(item);
    if (collected.length >= limit) break;
  }
  return collected;
}
