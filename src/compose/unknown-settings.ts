import { nearestName } from "../lib/near-names.ts";
import { limitSettings, limitVariable } from "../limits/limits.ts";
import { isServiceLink } from "../service-links.ts";

/** The settings that are not limits. Each with `…_FILE` can also name a file that holds its value. */
const SETTINGS =
  "ACCESS ADMIN_TOKEN ADMIN_TOKEN_FILE ALLOWED_HOSTS ALLOWED_ORIGINS AUDIT DATA DATABASE DATABASE_FILE ERROR_LOCATIONS EXPLORE FOLDERS GUESTS HOME HOST IMAGE IMAGE_DIR LOG NODE_ADDRESS OAUTH_AUDIENCE OAUTH_ISSUER OAUTH_PRIVATE_ISSUERS OAUTH_SCOPES PORT PRIVATE_HOSTS PUBLIC_URL REGISTRY REGISTRY_TARBALL_ORIGINS REGISTRY_TOKEN REGISTRY_TOKEN_FILE SEAL_KEY SEAL_KEY_FILE SECRET_KEY SECRET_KEY_FILE SECRETS_DIR TENANT_PACKAGES TENANT_UPSTREAMS TOKEN TOKEN_FILE UPSTREAM_PROGRAMS URL WORKERS"
    .split(" ")
    .map((name) => `BERTH_${name}`);

/** The variables that Berth reads, all of them. */
export const knownVariables: readonly string[] = [...SETTINGS, ...limitSettings.map(limitVariable)];

/** Variables that Berth sets for programs and scripts, which may start another Berth. */
const SET_BY_BERTH: ReadonlySet<string> = new Set([
  "BERTH_PROGRAM",
  "BERTH_WORKER",
  "BERTH_OPTIONS",
  "BERTH_ANSWERS",
  "BERTH_CONTEXT",
  "BERTH_REQUEST_ID",
]);

/** A sentence for each `BERTH_…` variable that nothing reads, with the name that was probably meant. Values are left out. */
export function unknownSettings(env: NodeJS.ProcessEnv): string[] {
  const named = Object.entries(env).filter(([name]) => name.startsWith("BERTH_") && !SET_BY_BERTH.has(name));
  const links = named.filter(([name, value = ""]) => isServiceLink(name, value)).map(([name]) => name);
  const unknown = named.map(([name]) => name).filter((name) => !knownVariables.includes(name) && !links.includes(name));
  const sentences = unknown.map((name) => {
    const meant = nearestName(name, knownVariables);
    return `${name} is not a setting${meant === undefined ? "; docs/settings.md lists them" : `; did you mean ${meant}?`}`;
  });
  if (links.length === 0) return sentences;
  return [
    ...sentences,
    `Kubernetes sets ${links.join(", ")} for the Service named "berth"; they are ignored. ` +
      `Set enableServiceLinks: false in the pod to be without them`,
  ];
}
