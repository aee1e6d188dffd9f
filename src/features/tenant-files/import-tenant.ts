import { applyImage, type ApplyReport } from "../../image/apply.ts";
import type { Image } from "../../image/image.ts";
import { checkNames, verifyImage } from "../../image/read.ts";
import { isStructure, type Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import { DEFAULT_TENANT, checkTenantName } from "../../lib/tenant-name.ts";
import type { Store } from "../../store/store.ts";
import type { Tenants } from "../../store/store.ts";
import { readTenantFile, type ReadOptions } from "./read-tenant-file.ts";
import { structureProblem } from "./structures.ts";
import type { TenantFileCounts, TenantFileHeader } from "./tenant-file.ts";

export interface ImportOptions extends ReadOptions {
  /** The author, for the tenant's history. */
  readonly by: string;
  /** The tenant's name here. By default the one in the file, unless that is `default`, whose code is trusted. */
  readonly as?: string | undefined;
  /** Allows replacing a tenant that is not empty. */
  readonly replace: boolean;
  /** The tenant's own limits after the import, from those before it and those in the file. */
  readonly limitsAfter: (own: JsonObject, ofFile: JsonObject) => JsonObject;
  /** Called once the whole file is known to be valid; false or an error leaves everything unchanged. */
  readonly mayPublish?: (imported: Imported, content: ContentOf) => Promise<boolean>;
}

/** Reads content of the file. */
type ContentOf = (cid: Cid) => Promise<Uint8Array | undefined>;

export interface Imported extends TenantFileCounts {
  readonly tenant: string;
  readonly header: TenantFileHeader;
  /** The tenant's own limits after the import. */
  readonly limits: JsonObject;
  /** The bytes of content, as stored. */
  readonly bytes: number;
  /** The value of the variable `mcps`. */
  readonly mcps: Cid | undefined;
  /** Secrets that had a value in the source and have to be set here. */
  readonly secretNames: readonly string[];
  readonly isPublished: boolean;
}

/**
 * Creates a tenant from a file in one step: a Berth that serves the store serves it from then on. Rejects, with nothing
 * changed, with `tenant_file_invalid`, whose data has all problems, or with `tenant_exists`.
 */
export async function importTenant(
  tenants: Tenants,
  source: AsyncIterable<Uint8Array>,
  options: ImportOptions,
): Promise<Imported> {
  const { by, as, replace, limitsAfter, mayPublish = () => Promise.resolve(true) } = options;
  const refuseDefault = (): void => {
    const why = `the file contains the tenant "${DEFAULT_TENANT}", whose code is trusted as the operator's own`;
    throw new BerthError("tenant_invalid", `${why}; use --as ${DEFAULT_TENANT} if you trust it, or --as another name`);
  };
  const refuseNamesake = async (tenant: string): Promise<void> => {
    if (!replace && (await tenants.hasAnything(tenant))) {
      throw new BerthError("tenant_exists", `"${tenant}"; replace it with --replace, or choose another name with --as`);
    }
  };
  if (as !== undefined) await refuseNamesake(as);
  const staging = await tenants.stage();
  try {
    const read = await readTenantFile(source, staging, {
      ...options,
      async onHeader({ tenant }) {
        if (as === undefined && tenant === DEFAULT_TENANT) refuseDefault();
        await refuseNamesake(as ?? tenant);
      },
    });
    if (read.problems) throw invalid(read.problems);
    const { header, counts, bytes, mcps, secretNames } = read;
    const tenant = as ?? header.tenant;
    const limits = limitsAfter((await tenants.find(tenant))?.limits ?? {}, header.limits);
    const imported = { tenant, header, limits, ...counts, bytes, mcps, secretNames };
    const content: ContentOf = (cid) => staging.content(cid);
    const isPublished = await mayPublish({ ...imported, isPublished: false }, content);
    if (isPublished) await staging.publish(tenant, { by, limits, replace });
    return { ...imported, isPublished };
  } finally {
    await staging.close();
  }
}

function invalid(problems: readonly { message: string; line?: number }[]): BerthError {
  const [first] = problems;
  const where = first?.line === undefined ? "" : `line ${first.line}: `;
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : "";
  return new BerthError("tenant_file_invalid", `${where}${first?.message}${more}`, { data: { problems } });
}

/** Checks everything in an untrusted image. Throws `image_invalid`. */
export function checkImage(image: Image): void {
  const { content } = image.manifest;
  checkNames(image.manifest);
  verifyImage(image);
  for (const cid of content.filter(isStructure)) {
    const problem = structureProblem(image.content(cid));
    if (problem !== undefined)
      throw new BerthError("image_invalid", `the structure ${cid} cannot be stored: ${problem}`);
  }
}

/**
 * Applies a boot image to a tenant as `default` gets its own at every start: edited names keep their edit, the others
 * follow the image. Creates the tenant if it does not exist. The image's compiled results are not trusted, since it was
 * built on another machine. Rejects with `tenant_invalid` for `default`.
 */
export async function importImage(
  store: Store,
  tenant: string,
  image: Image,
  { by }: { readonly by: string },
): Promise<ApplyReport> {
  checkTenantName(tenant);
  if (tenant === DEFAULT_TENANT) {
    const why = `"${tenant}" follows the image that Berth is started with; "berth serve --image" starts it with another`;
    throw new BerthError("tenant_invalid", why);
  }
  checkImage(image);
  if (!(await store.tenants.find(tenant))) await store.tenants.create(tenant, { by });
  return applyImage(store, tenant, image, { believesCompiled: false });
}
