import type { Subject } from "../../edits/edits.ts";
import type { ListedPackage, PackageEdits } from "../../edits/package-edits.ts";
import { PACKAGES } from "../../packages/package-set.ts";
import { mayAdminister, reading } from "../access/permit.ts";
import type { ApiOptions } from "../api/add-route.ts";
import type { PageRoute } from "../routed.ts";
import { inGroups } from "./pages.ts";
import { pathsOf } from "./parts/paths.ts";
import { bytesText, countOf, shortCid } from "./parts/text.ts";
import { viewHistory, type EditPageOptions } from "./subject.ts";

export interface PackagesPageOptions extends EditPageOptions {
  readonly packages: PackageEdits;
  readonly storedUse: ApiOptions["storedUse"];
}

const subject: Subject = { kind: "variable", name: PACKAGES };

/** `GET /packages`: the npm packages that definitions may import, who uses them, what a change would do, and their versions. */
export const packagesPage: PageRoute<PackagesPageOptions> = {
  path: "/packages",
  permit: reading(),
  create({ packages, storedUse, edits, pages, writable }) {
    return async (context) => {
      const { tenant, base } = context;
      const { cid, npm, packages: listed } = await packages.read(tenant);
      const isAllowed = packages.mayHave(tenant);
      const mayChange = writable && isAllowed;
      const direct = listed.filter((each) => each.direct);
      const others = listed.filter((each) => !each.direct);
      const rows = (some: readonly ListedPackage[]) =>
        some.length === 0
          ? undefined
          : pages.fragment(
              "packages",
              inGroups(some, (each) => viewOf(base, each, mayChange)),
            );
      const history = await viewHistory({ edits, tenant, writable: mayChange }, subject, {
        id: "packages",
        heading: "the packages",
        compareAt: { path: `${base}/variables/${PACKAGES}`, fields: [] },
      });
      await pages.send(context, "packages", {
        title: "Packages",
        section: "packages",
        scripts: ["packages.js"],
        writable,
        isAllowed,
        mayChange,
        tenant,
        cid: cid ?? "",
        isDamaged: cid !== null && listed.length === 0,
        direct: await rows(direct),
        others: await rows(others),
        othersCount: countOf(others.length, "further package"),
        npm: npm ?? "",
        stored: mayAdminister(context.principal) ? useText(await storedUse(tenant)) : "",
        history,
      });
    };
  },
};

/** All that the tenant stores, which packages are a part of. */
function useText({ use, storedBytes }: Awaited<ReturnType<ApiOptions["storedUse"]>>): string {
  const kinds = Object.entries(use).filter(([, bytes]) => bytes > 0);
  const total = kinds.reduce((sum, [, bytes]) => sum + bytes, 0);
  const parts = kinds.map(([kind, bytes]) => `${kind} ${bytesText(bytes)}`);
  return `The tenant stores ${bytesText(total)} of ${bytesText(storedBytes)}${parts.length > 0 ? `: ${parts.join(", ")}` : ""}.`;
}

function viewOf(
  base: string,
  { name, version, range, integrity, path, direct, tarball, supplied, servers, moreServers = 0 }: ListedPackage,
  mayChange: boolean,
): object {
  return {
    name,
    version,
    range: range ?? "",
    path,
    direct,
    supplied,
    integrity,
    short: tarball === undefined ? "" : shortCid(tarball),
    tarball: tarball ?? "",
    address: `${base}/cid/${tarball ?? ""}`,
    servers: servers.map((server) => ({ name: server, page: pathsOf(base, server).page })),
    more: moreServers > 0 ? `and ${countOf(moreServers, "more server")}` : "",
    mayChange,
  };
}
