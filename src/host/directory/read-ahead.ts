import type { NameQuery, Store } from "../../store/store.ts";

/**
 * A store that has read some names of a tenant together with all that they mean, in two steps whatever their number, and
 * answers from that: for parts that read them one by one.
 */
export async function readAhead(store: Store, tenant: string, asked: NameQuery): Promise<Store> {
  const { latest, names } = await store.meanings(tenant, asked);
  const cids = new Set(names.map(({ cid }) => cid));
  const contents = await store.contents(tenant, [...cids]);
  return {
    ...store,
    latestChange: () => Promise.resolve(latest),
    content: (of, cid) => (cids.has(cid) ? Promise.resolve(contents.get(cid)) : store.content(of, cid)),
    names: (of, kind) =>
      asked.kinds.includes(kind) ? Promise.resolve(names.filter((each) => each.kind === kind)) : store.names(of, kind),
    name: (of, kind, name) =>
      asked.names.some((each) => each.kind === kind && each.name === name)
        ? Promise.resolve(names.find((each) => each.kind === kind && each.name === name))
        : store.name(of, kind, name),
  };
}
