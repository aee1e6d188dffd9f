import { stripVTControlCharacters } from "node:util";
import { readTokenRequest } from "../access/token-request.ts";
import { type TokenInfo, Tokens } from "../access/tokens.ts";
import { DEFAULT_TENANT } from "../lib/tenant-name.ts";
import { printJson } from "./print.ts";
import { type DataOptions, type TenantDataOptions, withStore } from "./with-store.ts";

export interface CreateTokenOptions extends TenantDataOptions {
  readonly name?: string;
  /** Separated by commas. */
  readonly can: string;
  readonly server?: readonly string[];
  readonly tool?: readonly string[];
  readonly expires?: string;
  readonly json?: boolean;
}

/** `berth token create`: only the token goes to standard output, so that a script can store it. */
export async function createToken(options: CreateTokenOptions): Promise<number> {
  const { name = "", can, server, tool, expires } = options;
  const wish = readTokenRequest({
    name,
    can: can.split(",").map((each) => each.trim()),
    ...(server && { servers: server }),
    ...(tool && { tools: tool }),
    ...(expires !== undefined && { expires }),
  });
  return withTokens({ ...options, mayMake: true }, async (tokens) => {
    const created = await tokens.create(options.tenant, wish, "command");
    if (options.json) printJson(created, 2);
    else console.log(created.token);
    console.error(`This token of the tenant ${options.tenant} is shown once: ${permissionsOf(created)}.`);
    const { tenant, data } = options;
    const place = [
      tenant === DEFAULT_TENANT ? "" : ` --tenant ${tenant}`,
      data === undefined ? "" : ` --data "${data}"`,
    ];
    console.error(`To revoke it: berth token revoke ${created.id}${place.join("")}`);
    return 0;
  });
}

/** `berth token list` */
export function listTokens(options: TenantDataOptions & { readonly json?: boolean }): Promise<number> {
  return withTokens(options, async (tokens) => {
    const listed = await tokens.list(options.tenant);
    if (options.json) printJson(listed, 2);
    else for (const token of listed) console.log(lineOf(token));
    return 0;
  });
}

/** `berth token revoke ID` */
export function revokeToken(id: string, options: TenantDataOptions): Promise<number> {
  return withTokens(options, async (tokens) => {
    await tokens.revoke(options.tenant, id, "command");
    console.error(`The token ${id} of the tenant ${options.tenant} is revoked.`);
    return 0;
  });
}

function withTokens(
  options: DataOptions & { readonly mayMake?: boolean },
  work: (tokens: Tokens) => Promise<number>,
): Promise<number> {
  return withStore(options, async (store, { limits }) => {
    const tokens = new Tokens(store.tokens, { ...limits, onRevoked: () => {} });
    try {
      return await work(tokens);
    } finally {
      tokens.close();
    }
  });
}

function lineOf(token: TokenInfo): string {
  const { id, name, createdAt, revokedAt } = token;
  const state = revokedAt === null ? permissionsOf(token) : `revoked ${dateOf(revokedAt)}`;
  return stripVTControlCharacters([id, `made ${dateOf(createdAt)}`, state, name].join("  ").trimEnd());
}

/** As `call,read on echo, until 2026-12-01T00:00:00.000Z`. */
function permissionsOf({ can, servers, tools, expiresAt }: TokenInfo): string {
  const where = servers ? ` on ${servers.join(", ")}` : "";
  const what = tools ? ` the tools ${tools.join(", ")}` : "";
  const until = expiresAt === null ? "without an end" : `until ${dateOf(expiresAt)}`;
  const expired = expiresAt !== null && expiresAt <= Date.now() ? "expired, " : "";
  return `${expired}${can.join(",")}${what}${where}, ${until}`;
}

function dateOf(ms: number): string {
  return new Date(ms).toISOString();
}
