import { existsSync, readdirSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { createInterface } from "node:readline/promises";
import { readTenantOauth } from "../access/oauth/tenant-settings.ts";
import { limitsAfterImport, readTenantLimits, tenantLimitProblems, tenantLimits } from "../admission/tenant-limits.ts";
import { type Config, packageVersion, readConfig } from "../config.ts";
import { readImage } from "../image/read.ts";
import { checkImage, type Imported, importImage, importTenant } from "../features/tenant-files/import-tenant.ts";
import { tenantFile, type Written } from "../features/tenant-files/tenant-file.ts";
import type { Cid } from "../lib/cid.ts";
import { inDraft, publish } from "../lib/draft-file.ts";
import { BerthError } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { basePathOf } from "../lib/tenant-name.ts";
import type { Tenant } from "../store/store.ts";
import { importedPrograms, permitPrograms } from "../features/tenant-files/permit-imported-programs.ts";
import { countProblems, printProblems } from "./print-problems.ts";
import { printJson } from "./print.ts";
import { type DataOptions, withStore } from "./with-store.ts";

const BY_COMMAND = "command";
const BY_IMPORT = "import";
/** Stands for standard input. */
const STANDARD_INPUT = "-";
const WRITE_BYTES = 64 * 1024;

/** `berth tenant create NAME` */
export function createTenant(
  name: string,
  options: DataOptions & { readonly host?: string[]; readonly limit?: string[] },
): Promise<number> {
  return withStore({ ...options, mayMake: true }, async ({ tenants }) => {
    const { host: hosts = [], limit: texts = [] } = options;
    await tenants.create(name, { by: BY_COMMAND, hosts, limits: readTenantLimits({}, texts) });
    const places = [`${basePathOf(name)}/mcp`, ...hosts.map((host) => `the host ${host}`)];
    console.error(`The tenant ${name} is served at ${places.join(" and ")}.`);
    return 0;
  });
}

/** `berth tenant limit NAME [LIMIT=NUMBER…]`: sets limits, or shows all without any. `LIMIT=` restores the default. */
export function limitTenant(name: string, texts: readonly string[], options: DataOptions): Promise<number> {
  return withStore(options, async ({ tenants }) => {
    const tenant = await tenants.find(name);
    if (!tenant) throw new BerthError("tenant_not_found", `"${name}"`);
    const own = readTenantLimits(tenant.limits, texts);
    if (texts.length > 0) await tenants.change(name, { by: BY_COMMAND, limits: own });
    for (const [limit, value] of Object.entries(tenantLimits(readConfig(process.env).limits, own))) {
      console.log(`${limit}  ${value}${limit in own ? "" : "  (default)"}`);
    }
    return 0;
  });
}

/**
 * `berth tenant oauth NAME [SETTING=VALUE…]`: sets whose access tokens a tenant accepts, or shows it without settings.
 */
export function setTenantOauth(name: string, texts: readonly string[], options: DataOptions): Promise<number> {
  return withStore(options, async ({ tenants }) => {
    const tenant = await tenants.find(name);
    if (!tenant) throw new BerthError("tenant_not_found", `"${name}"`);
    const oauth = readTenantOauth(tenant.oauth, texts);
    if (texts.length > 0) {
      checkOwnAudience(name, oauth, await tenants.list());
      await tenants.change(name, { by: BY_COMMAND, oauth });
    }
    if (!oauth) console.error(`The tenant ${name} has no authorization server of its own.`);
    for (const [setting, value] of Object.entries(oauth ?? {})) {
      console.log(`${setting}  ${typeof value === "string" ? value : JSON.stringify(value)}`);
    }
    return 0;
  });
}

/** With the same issuer and audience, a token would be valid for two tenants. */
function checkOwnAudience(name: string, oauth: JsonObject | null, tenants: readonly Tenant[]): void {
  const { issuer, audience } = oauth ?? {};
  if (audience === undefined) return;
  const same = tenants.find(
    (other) => other.name !== name && other.oauth?.["issuer"] === issuer && other.oauth?.["audience"] === audience,
  );
  if (!same) return;
  const why = `"${same.name}" already takes this issuer's tokens for ${JSON.stringify(audience)}; each tenant needs an audience of its own`;
  throw new BerthError("tenant_invalid", why);
}

/** `berth tenant list` */
export function listTenants(options: DataOptions & { readonly json?: boolean }): Promise<number> {
  return withStore(options, async ({ tenants }) => {
    const listed = await tenants.list();
    if (options.json) printJson(listed, 2);
    else for (const line of linesOf(listed)) console.log(line);
    return 0;
  });
}

function linesOf(listed: readonly Tenant[]): string[] {
  const width = Math.max(...listed.map(({ name }) => name.length));
  return listed.map(({ name, createdAt, suspendedAt, hosts }) => {
    const state = suspendedAt === null ? "served" : `suspended since ${new Date(suspendedAt).toISOString()}`;
    const made = `made ${new Date(createdAt).toISOString()}`;
    return [name.padEnd(width), made, state, hosts.join(", ")].filter(Boolean).join("  ");
  });
}

/** `berth tenant suspend NAME` and `berth tenant resume NAME` */
export function setSuspended(name: string, suspended: boolean, options: DataOptions): Promise<number> {
  return withStore(options, async ({ tenants }) => {
    await tenants.change(name, { by: BY_COMMAND, suspended });
    console.error(`The tenant ${name} is ${suspended ? "suspended: none of it is served" : "served again"}.`);
    return 0;
  });
}

/** `berth tenant delete NAME`: asks for the name again, and without a terminal requires `--yes`. */
export function deleteTenant(name: string, options: DataOptions & { readonly yes?: boolean }): Promise<number> {
  return withStore(options, async ({ tenants }, { dataDir, database }) => {
    if (!(await tenants.find(name))) throw new BerthError("tenant_not_found", `"${name}"`);
    if (!options.yes && !(await confirmDeletion(name))) {
      console.error("Nothing was deleted.");
      return 1;
    }
    const { names, contents, isErased } = await tenants.delete(name, BY_COMMAND);
    console.error(`The tenant ${name} is deleted: ${names} names, and ${contents} contents that nobody else holds.`);
    if (!isErased)
      console.error(
        database === undefined
          ? "Some of it may still stand in unused parts of the store's file: berth collect overwrites those, once whoever reads the store has ended."
          : "Some of it stands in unused parts of the database's files and logs, until Postgres uses them again.",
      );
    const copies = (database === undefined ? readdirSync(dataDir) : []).filter((file) => COPIES.test(file));
    if (copies.length > 0)
      console.error(`What the store held before is also in ${copies.join(", ")} (in ${dataDir}): delete that, too.`);
    console.error("Backups that were made before hold it until you delete them; a restore of one brings it back.");
    return 0;
  });
}

/** The names of what restores and broken logs left in the data folder. */
const COPIES = /^(?:before-restore|broken-log)-/;

/** `berth tenant export NAME`: to standard output, or to a file that is there whole or not at all. */
export function exportTenant(
  name: string,
  options: DataOptions & { readonly out?: string; readonly force?: boolean },
): Promise<number> {
  return withStore(options, async ({ tenants }) => {
    const { out, force = false } = options;
    if (out === undefined && process.stdout.isTTY) {
      throw new BerthError("backup_failed", "a tenant's file is not for a terminal; use --out FILE");
    }
    if (out !== undefined && !force && existsSync(out)) {
      throw new BerthError("backup_failed", `${out} already exists; --force replaces it`);
    }
    const snapshot = await tenants.snapshot(name);
    try {
      const lines = tenantFile(snapshot, { tenant: name, berth: packageVersion() });
      const written = await (out === undefined ? writeTo(process.stdout, lines) : writeFile(out, lines));
      tellExported(name, written);
      return 0;
    } finally {
      await snapshot.close();
    }
  });
}

interface ImportCommandOptions extends DataOptions {
  readonly as?: string;
  readonly replace?: boolean;
  readonly yes?: boolean;
  readonly check?: boolean;
  /** Servers may start programs of this machine. */
  readonly programs?: boolean;
}

/**
 * `berth tenant import FILE`: imports a file of `berth tenant export`; `-` is standard input. The folder of a boot
 * image is merged into a tenant.
 */
export function importTenantFile(file: string, options: ImportCommandOptions): Promise<number> {
  if (statSync(file, { throwIfNoEntry: false })?.isDirectory()) return importImageFolder(file, options);
  return withStore({ ...options, mayMake: true }, async ({ tenants }, config) => {
    const { as, replace = false, yes = false, check = false } = options;
    const isReplaced = async (tenant: string): Promise<boolean> => replace && (await tenants.hasAnything(tenant));
    try {
      const imported = await importTenant(tenants, await read(file), {
        by: BY_IMPORT,
        as,
        replace: replace || check,
        limits: config.limits,
        limitProblems: tenantLimitProblems,
        limitsAfter: (own, ofFile) => limitsAfterImport(config.limits, own, ofFile),
        async mayPublish(found, content) {
          checkRoom(found, config);
          const programs = await importedPrograms(found.tenant, found.mcps, content);
          permitPrograms(programs, options.programs || check);
          return !check && (yes || !(await isReplaced(found.tenant)) || confirmReplacement(found.tenant, file));
        },
      });
      if (check) console.error(`${nameOf(file)} is whole: the tenant ${imported.header.tenant}, ${said(imported)}.`);
      else if (imported.isPublished) tellImported(imported);
      else console.error("Nothing was imported.");
      return check || imported.isPublished ? 0 : 1;
    } catch (error) {
      const problems = error instanceof BerthError && error.code === "tenant_file_invalid" && error.data?.["problems"];
      if (!problems) throw error;
      printProblems((problems as Problem[]).map((problem) => Object.assign({}, problem, { file: nameOf(file) })));
      console.error(`Nothing was imported: ${countProblems(problems as Problem[])}.`);
      return 1;
    }
  });
}

function importImageFolder(folder: string, options: ImportCommandOptions): Promise<number> {
  return withStore({ ...options, mayMake: true }, async (store) => {
    const { as, replace, check } = options;
    if (as === undefined) throw new BerthError("tenant_invalid", "an image names no tenant; use --as NAME");
    if (replace)
      throw new BerthError("tenant_invalid", "an image is merged into what the tenant has; leave out --replace");
    const image = await readImage(folder, "default");
    const mcps = image.manifest.variables.find(({ name }) => name === "mcps")?.definition_cid;
    const held = new Set(image.manifest.content);
    // An entry of the image may refer to content that the tenant already has.
    const content = async (cid: Cid): Promise<Uint8Array | undefined> =>
      held.has(cid) ? image.content(cid) : store.content(as, cid);
    permitPrograms(await importedPrograms(as, mcps, content), options.programs || check);
    if (check) {
      checkImage(image);
      console.error(`${folder} is whole: the image ${image.cid}.`);
      return 0;
    }
    const { changed, kept } = await importImage(store, as, image, { by: BY_IMPORT });
    console.error(`The tenant ${as} is served at ${basePathOf(as)}/mcp: ${changed.length} names follow the image.`);
    for (const { kind, name, message } of kept) console.error(message ?? `The ${kind} ${name} stays as it was edited.`);
    return 0;
  });
}

async function read(file: string): Promise<AsyncIterable<Uint8Array>> {
  if (file === STANDARD_INPUT) return process.stdin;
  try {
    return (await open(file)).createReadStream();
  } catch (error) {
    throw new BerthError("tenant_file_invalid", `${file} cannot be read: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

function nameOf(file: string): string {
  return file === STANDARD_INPUT ? "standard input" : file;
}

function checkRoom({ bytes, limits: own }: Imported, { limits }: Config): void {
  const { storedBytes } = tenantLimits(limits, own);
  if (bytes <= storedBytes) return;
  const detail = `the file holds ${bytes} bytes of content, and the tenant may have ${storedBytes}`;
  throw new BerthError("storage_full", `${detail} (BERTH_STORED_BYTES_PER_TENANT)`);
}

async function confirmDeletion(tenant: string): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    console.error("This cannot be asked without a terminal; --yes deletes all that the tenant has.");
    return false;
  }
  const goes = "goes: servers, variables, secrets, tokens, releases";
  return isTyped(tenant, `All that the tenant ${tenant} has ${goes}. Type its name: `);
}

async function confirmReplacement(tenant: string, file: string): Promise<boolean> {
  if (file === STANDARD_INPUT || !process.stdin.isTTY || !process.stderr.isTTY) {
    console.error(`Nobody can be asked here whether to replace the tenant ${tenant}; --yes replaces it.`);
    return false;
  }
  const goes = "goes, but for its secrets, tokens and host names";
  return isTyped(tenant, `What the tenant ${tenant} has ${goes}. Type its name: `);
}

async function isTyped(name: string, question: string): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return (await terminal.question(question)).trim() === name;
  } finally {
    terminal.close();
  }
}

function tellExported(name: string, { secretNames, ...written }: Written): void {
  console.error(`The tenant ${name} is exported: ${said(written)}.`);
  console.error("It holds no tokens, authorization server or host names, and no secret's value.");
  if (secretNames.length > 0) console.error(`Set these secrets again where it goes: ${secretNames.join(", ")}.`);
}

function tellImported({ tenant, secretNames, header, limits: own, ...imported }: Imported): void {
  console.error(`The tenant ${tenant} is served at ${basePathOf(tenant)}/mcp: ${said(imported)}.`);
  const texts = (limits: JsonObject) => Object.entries(limits).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
  const limits = texts(own);
  if (limits.length > 0) console.error(`Limits of its own: ${limits.join(", ")}.`);
  const raised = texts(header.limits).filter((each) => !limits.includes(each));
  if (raised.length > 0)
    console.error(`Higher limits of the file are left out: berth tenant limit ${tenant} ${raised.join(" ")}`);
  for (const secret of secretNames) console.error(`Set its secret: berth secret set ${secret} --tenant ${tenant}`);
}

function said({ contents, bytes, changes }: { contents: number; bytes: number; changes: number }): string {
  return `${contents} contents of ${bytes} bytes, and ${changes} changes of names`;
}

async function writeFile(file: string, lines: AsyncGenerator<string, Written>): Promise<Written> {
  return inDraft(file, async (draft) => {
    const handle = await open(draft, "r+");
    const stream = handle.createWriteStream();
    const written = await writeTo(stream, lines);
    await new Promise<void>((resolve, reject) =>
      stream.end((error?: Error | null) => (error ? reject(error) : resolve())),
    );
    await publish(draft, file);
    return written;
  });
}

/** Waits for the reader, so that a slow one delays the export and fills no memory. */
async function writeTo(stream: NodeJS.WritableStream, lines: AsyncGenerator<string, Written>): Promise<Written> {
  // The failing write reports it, before the stream does.
  const onError = (): void => {};
  stream.on("error", onError);
  const write = (text: string): Promise<void> =>
    new Promise((resolve, reject) => {
      stream.write(text, (error) =>
        error ? reject(new BerthError("backup_failed", `the file cannot be written: ${error.message}`)) : resolve(),
      );
    });
  try {
    let text = "";
    for (;;) {
      const { value, done } = await lines.next();
      if (!done) text += value;
      if (text.length >= WRITE_BYTES || done) {
        await write(text);
        text = "";
      }
      if (!done) continue;
      stream.removeListener("error", onError);
      return value;
    }
  } finally {
    // Reading has to end before the source can be closed.
    await lines.return(undefined as never);
  }
}
