/** Iterates over the items of listings. */

interface Page {
  next_cursor: string | null;
}

/** Every item of every page; a page is fetched when it is needed. */
export async function* itemsOf<P extends Page, Item>(
  fetchPage: (cursor: string | undefined) => Promise<P>,
  items: (page: P) => readonly Item[],
): AsyncGenerator<Item, void, undefined> {
  let cursor: string | undefined;
  do {
    const page = await fetchPage(cursor);
    yield* items(page);
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
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
