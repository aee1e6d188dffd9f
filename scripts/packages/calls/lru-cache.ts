import { LRUCache } from "lru-cache";

/** Lists the keys that are left in a small cache. */
export function left(): string[] {
  const cache = new LRUCache<string, number>({ max: 2, ttl: 60_000 });
  cache.set("a", 1).set("b", 2);
  cache.get("a");
  cache.set("c", 3);
  return [...cache.keys()];
}
