import { BerthError } from "../../lib/errors.ts";
import type { Catalog } from "../../host/catalog/catalog.ts";
import type { Host } from "../../host/host.ts";
import { permittedCatalog } from "../../host/catalog/permitted.ts";
import type { ServerPlace } from "../protocol.ts";

/**
 * The catalog of a release: a call that began in it ends in it, whatever was deployed since. Rejects with
 * `invalid_params` when it is gone.
 */
export async function catalogOfRelease(
  host: Host,
  { tenant, catalog: current, principal }: Pick<ServerPlace, "tenant" | "catalog" | "principal">,
  release: string,
): Promise<Catalog> {
  if (current.release === release) return current;
  const kept = await host.release(tenant, current.server, release);
  if (kept) return permittedCatalog(kept, principal);
  const detail = `the release of "${current.server}" that asked (${release}) is gone; make the request again`;
  throw new BerthError("invalid_params", detail);
}
