import { existsSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { limitsAfterImport, tenantLimitProblems, tenantLimits } from "../../admission/tenant-limits.ts";
import { countProblems, printProblems } from "../../commands/print-problems.ts";
import { isTyped } from "../../commands/terminal.ts";
import { type Config, packageVersion } from "../../config.ts";
import { readImage } from "../../image/read.ts";
import type { Cid } from "../../lib/cid.ts";
import { withDraftFile, publish } from "../../lib/draft-file.ts";
import { BerthError } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { Problem } from "../../lib/problem.ts";
import { tenantBasePath } from "../../lib/tenant-name.ts";
import type { WithStore } from "../feature.ts";
import { checkImage, type Imported, importImage, importTenant } from "./import-tenant.ts";
import { importedPrograms, permitPrograms } from "./permit-imported-programs.ts";
import { tenantFile, type Written } from "./tenant-file.ts";

const BY_IMPORT = "import";
/** Represents standard input. */
const STANDARD_INPUT = "-";
const WRITE_BYTES = 64 * 1024;

interface DataOptions {
  readonly data?: string;
}

/** `berth tenant export NAME`: to standard output, or to a file that is complete or does not exist. */
export function exportTenant(
  withStore: WithStore,
  name: string,
  options: DataOptions & { readonly out?: string; readonly force?: boolean },
): Promise<number> {
  return withStore(options, async ({ tenants }) => {
    const { out, force = false } = options;
    if (out === undefined && process.stdout.isTTY) {
      throw new BerthError("backup_failed", "a tenant's file cannot be written to a terminal; use --out FILE");
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
 * `berth tenant import FILE`: imports a file from `berth tenant export`; `-` is standard input. The folder of a boot
 * image is merged into a tenant.
 */
export function importTenantFile(withStore: WithStore, file: string, options: ImportCommandOptions): Promise<number> {
  if (statSync(file, { throwIfNoEntry: false })?.isDirectory()) return importImageFolder(withStore, file, options);
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
      if (check) console.error(`${nameOf(file)} is complete: the tenant ${imported.header.tenant}, ${said(imported)}.`);
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

function importImageFolder(withStore: WithStore, folder: string, options: ImportCommandOptions): Promise<number> {
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
      console.error(`${folder} is complete: the image ${image.cid}.`);
      return 0;
    }
    const { changed, kept } = await importImage(store, as, image, { by: BY_IMPORT });
    console.error(`The tenant ${as} is served at ${tenantBasePath(as)}/mcp: ${changed.length} names follow the image.`);
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
  const detail = `the file has ${bytes} bytes of content, and the tenant may store ${storedBytes}`;
  throw new BerthError("storage_full", `${detail} (BERTH_STORED_BYTES_PER_TENANT)`);
}

async function confirmReplacement(tenant: string, file: string): Promise<boolean> {
  if (file === STANDARD_INPUT || !process.stdin.isTTY || !process.stderr.isTTY) {
    console.error(`There is no terminal to confirm replacing the tenant ${tenant}; use --yes to replace it.`);
    return false;
  }
  const goes = "goes, but for its secrets, tokens and host names";
  return isTyped(tenant, `What the tenant ${tenant} has ${goes}. Type its name: `);
}

function tellExported(name: string, { secretNames, ...written }: Written): void {
  console.error(`The tenant ${name} is exported: ${said(written)}.`);
  console.error("The file has no tokens, authorization server or host names, and no values of secrets.");
  if (secretNames.length > 0) console.error(`Set these secrets again after the import: ${secretNames.join(", ")}.`);
}

function tellImported({ tenant, secretNames, header, limits: own, ...imported }: Imported): void {
  console.error(`The tenant ${tenant} is served at ${tenantBasePath(tenant)}/mcp: ${said(imported)}.`);
  const texts = (limits: JsonObject) => Object.entries(limits).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
  const limits = texts(own);
  if (limits.length > 0) console.error(`Limits of its own: ${limits.join(", ")}.`);
  const raised = texts(header.limits).filter((each) => !limits.includes(each));
  if (raised.length > 0)
    console.error(`Higher limits of the file were not applied: berth tenant limit ${tenant} ${raised.join(" ")}`);
  for (const secret of secretNames) console.error(`Set its secret: berth secret set ${secret} --tenant ${tenant}`);
}

function said({ contents, bytes, changes }: { contents: number; bytes: number; changes: number }): string {
  return `${contents} contents of ${bytes} bytes, and ${changes} changes of names`;
}

async function writeFile(file: string, lines: AsyncGenerator<string, Written>): Promise<Written> {
  return withDraftFile(file, async (draft) => {
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

/** Waits for the reader, so that a slow one delays the export instead of filling memory. */
async function writeTo(stream: NodeJS.WritableStream, lines: AsyncGenerator<string, Written>): Promise<Written> {
  // The failing write reports it before the stream does.
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
