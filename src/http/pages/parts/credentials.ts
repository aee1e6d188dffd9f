import type { Access } from "../../../access/access.ts";
import { DEFAULT_TENANT } from "../../../lib/tenant-name.ts";
import { shellWord } from "./text.ts";

/**
 * How clients show who they are: not at all, by a token that they are given, or by one that they get from an
 * authorization server by themselves, which programs do not.
 */
export type ClientAccess = "open" | "token" | "oauth";

/** What a page says about how clients show who they are. */
export interface Credentials {
  readonly access: ClientAccess;
  /** Whoever has no token is refused. */
  readonly asked: boolean;
  /** The authorization server that clients get a token from. */
  readonly issuer?: string;
  /** What makes a token that is good for what the page shows. */
  readonly command: string;
}

/** For one server, or for all of the tenant's. */
export function credentialsOf(
  access: Pick<Access, "required" | "oauth">,
  tenant: string,
  server?: string,
): Credentials {
  const words = ["npx berth token create"];
  if (tenant !== DEFAULT_TENANT) words.push(`--tenant ${shellWord(tenant)}`);
  if (server !== undefined) words.push(`--server ${shellWord(server)}`);
  const command = words.join(" ");
  if (!access.required) return { access: "open", asked: false, command };
  const issuer = access.oauth(tenant)?.issuer;
  if (issuer === undefined) return { access: "token", asked: true, command };
  return { access: "oauth", asked: true, issuer, command };
}
