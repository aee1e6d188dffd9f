import { isStructure } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Store } from "../../store/store.ts";
import { checkTenantName, DEFAULT_TENANT } from "../../lib/tenant-name.ts";
import { applyImage, type ApplyReport } from "../apply.ts";
import type { Image } from "../image.ts";
import { checkNames, verifyImage } from "../read.ts";
import { structureProblem } from "./structures.ts";

/** Checks everything that an image from elsewhere holds. Throws `image_invalid`. */
export function checkImage(image: Image, limits: { readonly sourceFiles: number }): void {
  const { content } = image.manifest;
  checkNames(image.manifest);
  verifyImage(image);
  for (const cid of content.filter(isStructure)) {
    const problem = structureProblem(image.content(cid), limits);
    if (problem !== undefined) throw new BerthError("image_invalid", `the structure ${cid} cannot be kept: ${problem}`);
  }
}

/**
 * Brings a tenant to a boot image as `default` is brought to its own at every start: names that were edited keep their
 * edit, the others follow. Makes the tenant where there is none. The image's compiled results are not trusted, since it
 * comes from elsewhere. Rejects with `tenant_invalid` for `default`.
 */
export async function importImage(
  store: Store,
  tenant: string,
  image: Image,
  { by, limits }: { readonly by: string; readonly limits: { readonly sourceFiles: number } },
): Promise<ApplyReport> {
  checkTenantName(tenant);
  if (tenant === DEFAULT_TENANT) {
    const why = `"${tenant}" follows the image that Berth is started with; "berth serve --image" starts it with another`;
    throw new BerthError("tenant_invalid", why);
  }
  checkImage(image, limits);
  if (!(await store.tenants.find(tenant))) await store.tenants.create(tenant, { by });
  return applyImage(store, tenant, image, { believesCompiled: false });
}
