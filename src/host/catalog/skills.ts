import type { SkillContract } from "../../contract/contract.ts";
import type { DiscoveredSkill } from "../../discover/discovery.ts";
import { addProblem } from "../../entry/config-place.ts";
import type { Offered } from "../../entry/offer.ts";
import { cidFromDigest, type Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { mediaTypeFor } from "../../lib/media-type.ts";
import type { Store } from "../../store/store.ts";
import type { Resource } from "../offers/catalog.ts";
import { contentsOfBytes } from "../offers/resource-contents.ts";

/** The skills of a definition under `skill://<server>/`, so that URIs of servers do not collide. */
export interface ServedSkills {
  readonly contracts: readonly SkillContract[];
  /** The file behind each URI. */
  readonly files: ReadonlyMap<string, Cid>;
}

export function serveSkills(server: string, found: readonly DiscoveredSkill[] = []): ServedSkills {
  const files = new Map<string, Cid>();
  const contracts = found.map(({ path, frontmatter, files: own }): SkillContract => {
    const root = `skill://${encodePath(server)}/${encodePath(path)}`;
    const resources = own.map(({ path: file, digest, size }) => {
      const uri = `${root}/${encodePath(file)}`;
      files.set(uri, cidFromDigest(Buffer.from(digest, "hex")));
      return { uri, digest: `sha256:${digest}`, size };
    });
    return { uri: `${root}/SKILL.md`, frontmatter, resources };
  });
  return { contracts, files };
}

function encodePath(path: string): string {
  return path.split("/").map(encodeURIComponent).join("/");
}

/** Removes resources with the URI of a skill's file: clients verify its digest. */
export function dropSkillFileResources(
  { resources, problems }: Offered,
  server: string,
  { files }: ServedSkills,
): void {
  for (const uri of resources.keys()) {
    if (!files.has(uri)) continue;
    resources.delete(uri);
    addProblem(
      { pointer: `/${server}`, problems },
      "bad-uri",
      `${uri} is a file of a skill; use another URI for this resource`,
    );
  }
}

/** A file of a skill, from its tenant's content. */
export function skillFileResource(
  { files }: ServedSkills,
  uri: string,
  tenant: string,
  store: Pick<Store, "content">,
): Resource | undefined {
  const cid = files.get(uri);
  if (cid === undefined) return undefined;
  return {
    async read() {
      const bytes = await store.content(tenant, cid);
      if (!bytes) throw new BerthError("content_missing", cid, { data: { cid } });
      return { contents: [contentsOfBytes(bytes, uri, mediaTypeFor(uri))] };
    },
  };
}
