import type { Access } from "../../../access/access.ts";
import { DEFAULT_TENANT } from "../../../lib/tenant-name.ts";
import { shellWord } from "./text.ts";

/**
 * How clients authenticate: not at all, by a token that they are given, or by one that they get from an authorization
 * server by themselves, which programs do not.
 */
export type ClientAccess = "open" | "token" | "oauth";

/** The authentication of clients, as a page describes it. */
export interface Credentials {
  readonly access: ClientAccess;
  /** Clients without a token are refused. */
  readonly asked: boolean;
  /** The authorization server that clients get a token from. */
  readonly issuer?: string;
  /** The command that creates a token for what the page shows. */
  readonly command: string;
}

/** For one server, or for all of the tenant's. */
export function credentialsOf(
  access: Pick<Access, "required" | "oauth">,
  tenant: string,
  server?: string,
): Credentials {
  const words = ["berth token create"];
  if (tenant !== DEFAULT_TENANT) words.push(`--tenant ${shellWord(tenant)}`);
  if (server !== undefined) words.push(`--server ${shellWord(server)}`);
  const command = words.join(" ");
  if (!access.required) return { access: "open", asked: false, command };
  const issuer = access.oauth(tenant)?.issuer;
  if (issuer === undefined) return { access: "token", asked: true, command };
  return { access: "oauth", asked: true, issuer, command };
}
