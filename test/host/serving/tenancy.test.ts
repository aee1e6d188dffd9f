import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { followChanges, openTenancy, ServedTenants, type Tenancy } from "../../../src/host/serving/tenancy.ts";
import { rawBlock } from "../../../src/lib/cid.ts";
import { createLog } from "../../../src/lib/log.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { lowerInSuite } from "../../support/lower-in-suite.ts";
import { closeAfter, temporaryFolder } from "../../support/suite.ts";
import { addTenant } from "../../support/tenants.ts";
import { until } from "../../support/until.ts";

describe("which tenants a process serves", () => {
  lowerInSuite({ tenantIdleMs: 40 });
  const folder = temporaryFolder();
  let store: Store;
  let tenancy: Tenancy;
  const busy = new Set<string>();
  const done: string[] = [];
  before(async () => {
    store = await openSqliteStore({ dataDir: folder });
    for (const name of ["acme", "umbrella", "idle"]) await store.tenants.create(name, { by: "test" });
    tenancy = await openTenancy({
      served: new ServedTenants(),
      tenants: store.tenants,
      open: async (tenant) => void done.push(`open ${tenant}`),
      unloadIdle: (tenant) => !busy.has(tenant) && done.push(`rest ${tenant}`) > 0,
      close: async (tenant) => void done.push(`end ${tenant}`),
      log: createLog("silent"),
    });
  });
  after(async () => {
    await tenancy.close();
    await store.close();
  });
  const asked = (): string[] => done.splice(0);

  it("a tenant is opened when somebody first asks for it, once, and none before", async () => {
    assert.deepEqual(asked(), []);
    busy.add("acme");
    await Promise.all([tenancy.admit("acme"), tenancy.admit("acme")]);
    assert.equal(tenancy.admit("acme"), undefined);
    assert.deepEqual(asked(), ["open acme"]);
  });

  it("tenantIdleMs: a tenant that nobody uses is forgotten, and opened again when it is asked for", async () => {
    await tenancy.admit("idle");
    await until(async () => done.includes("rest idle"));
    assert.equal(tenancy.opening("idle"), undefined);
    await tenancy.admit("idle");
    assert.deepEqual(asked().slice(0, 3), ["open idle", "rest idle", "open idle"]);
  });

  it("a host name stands for its tenant as soon as it is mapped, and no longer than that", async () => {
    assert.equal(tenancy.unmapped, true);
    await store.tenants.change("acme", { by: "test", hosts: ["acme.example"] });
    await until(async () => tenancy.findByHost("acme.example") === "acme");
    assert.equal(tenancy.unmapped, false);
    await store.tenants.change("acme", { by: "test", hosts: ["other.example"] });
    await store.tenants.change("idle", { by: "test", hosts: ["acme.example"] });
    await until(
      async () => tenancy.findByHost("acme.example") === "idle" && tenancy.findByHost("other.example") === "acme",
    );
    await store.tenants.change("idle", { by: "test", hosts: [] });
    await until(async () => tenancy.findByHost("acme.example") === undefined);
    await store.tenants.change("acme", { by: "test", hosts: [] });
    await until(async () => tenancy.unmapped);
  });

  it("tenants are created under strict names and host names, and default is always served", async () => {
    const names = ["", ..."Acme a_b -a a- a--b 1a a/b a.b é а ..".split(" "), "a\n", "a".repeat(64)];
    for (const name of names) {
      await assert.rejects(store.tenants.create(name, { by: "test" }), { code: "tenant_invalid" }, name);
    }
    const hosts = ["", ..."A.example a.example:80 a..b -a.example a/b [::1] *.example".split(" ")];
    for (const host of hosts) {
      const creating = store.tenants.create("other", { by: "test", hosts: [host] });
      await assert.rejects(creating, { code: "tenant_invalid" }, host);
    }
    await assert.rejects(store.tenants.create("default", { by: "test" }), { code: "tenant_exists" });
    await store.tenants.change("acme", { by: "test", hosts: ["taken.example"] });
    const message = /already assigned to "acme"/;
    await assert.rejects(store.tenants.create("other", { by: "test", hosts: ["taken.example"] }), { message });
    assert.equal(await store.tenants.find("other"), undefined, "nothing of it is stored");
    await assert.rejects(store.tenants.change("default", { by: "test", suspended: true }), { code: "tenant_invalid" });
  });
});

describe("what one tenant makes long", () => {
  const folder = temporaryFolder();
  let store: Store;
  let other: Store;
  const log = createLog("silent");
  before(async () => {
    store = await openSqliteStore({ dataDir: folder });
    for (const name of ["slow", "quick"]) await store.tenants.create(name, { by: "test" });
    other = await openSqliteStore({ dataDir: folder });
  });
  after(() => Promise.all([store.close(), other.close()]));
  const never = new Promise<void>(() => {});
  const set = (tenant: string, text: string) => {
    const value = rawBlock(text);
    const set = [{ kind: "variable", name: "mcps", cid: value.cid }] as const;
    return other.change(tenant, { by: "test", put: [value], set });
  };

  it("keeps no other tenant's end waiting", async () => {
    const ended: string[] = [];
    const end = (tenant: string): Promise<void> => {
      ended.push(tenant);
      return tenant === "slow" ? never : Promise.resolve();
    };
    const open = async (): Promise<void> => {};
    const served = new ServedTenants();
    const tenancy = await openTenancy({
      served,
      tenants: store.tenants,
      open,
      unloadIdle: () => false,
      close: end,
      log,
    });
    for (const name of ["slow", "quick"]) await tenancy.admit(name);
    await other.tenants.change("slow", { by: "test", suspended: true });
    await until(() => ended.includes("slow"), "it is being ended");
    await other.tenants.change("quick", { by: "test", suspended: true });
    await until(() => ended.includes("quick"), "the other one is ended meanwhile", 30_000);
    for (const name of ["slow", "quick"]) await other.tenants.change(name, { by: "test", suspended: false });
    void tenancy.close();
  });

  it("keeps no change of another process waiting, be it of another tenant or the next of its own", async () => {
    const read: string[] = [];
    const host = {
      secretChanged() {},
      reload(tenant: string, _: unknown, onRead?: () => void): Promise<void> {
        read.push(tenant);
        // It goes on to tell listeners, for which it loads servers.
        onRead?.();
        return tenant === "slow" ? never : Promise.resolve();
      },
    } as unknown as Parameters<typeof followChanges>[1];
    const tenancy = { opening: () => Promise.resolve() } as unknown as Tenancy;
    const stop = followChanges(store, host, tenancy, log);
    for (const [at, tenant] of ["slow", "quick", "slow"].entries()) {
      await set(tenant, `{"a${at}":{}}`);
      await until(() => read.length === at + 1, `${tenant} is read`, 30_000);
    }
    assert.deepEqual(read, ["slow", "quick", "slow"]);
    void stop();
  });
});

it("a deleted tenant leaves nothing behind but what others hold, and another of its name begins with nothing", async (t) => {
  const store = closeAfter(t, await openSqliteStore({ dataDir: temporaryFolder(t) }));
  const [own, shared] = [rawBlock("of acme alone"), rawBlock("of both")];
  await addTenant(store, "acme", { variables: { own: "of acme alone", shared: "of both" }, hosts: ["acme.example"] });
  await addTenant(store, "umbrella", { variables: { shared: "of both" } });
  const at = { expected: 0, expiresAt: Date.now() + 60_000 };
  await store.putRecord("acme", "task", "t", { value: "{}", ...at });
  await store.putSecret("acme", { name: "S", keyId: "k", sealed: new Uint8Array([1]), by: "test" });

  await assert.rejects(store.tenants.delete("default", "test"), { code: "tenant_invalid" });
  await assert.rejects(store.tenants.delete("nobody", "test"), { code: "tenant_not_found" });
  assert.deepEqual(await store.tenants.delete("acme", "test"), { names: 2, contents: 1, isErased: true });
  assert.equal(await store.tenants.find("acme"), undefined);
  assert.equal((await store.tenants.hosts()).size, 0);

  await store.change("acme", { by: "test", put: [own], set: [{ kind: "variable", name: "late", cid: own.cid }] });
  await store.tenants.create("acme", { by: "test" });
  assert.deepEqual(await store.names("acme", "variable"), []);
  assert.deepEqual(await store.history("acme", "variable", "own"), []);
  for (const { cid } of [own, shared]) assert.equal(await store.content("acme", cid), undefined);
  assert.equal(await store.record("acme", "task", "t"), undefined);
  assert.equal(await store.secret("acme", "S"), undefined);
  assert.ok(await store.content("umbrella", shared.cid));
});
