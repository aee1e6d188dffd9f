import { readFileSync } from "node:fs";
import { isLoopback } from "../config.ts";
import { BerthError } from "../lib/errors.ts";

/**
 * The Berth that commands talk to, and its token: `BERTH_URL`, and `BERTH_TOKEN` or `BERTH_TOKEN_FILE`. The token is
 * never an argument, which every program of the machine can read, and it goes to that Berth alone.
 */
const DEFAULT_URL = "http://127.0.0.1:7420";

export function ownUrl(env: NodeJS.ProcessEnv = process.env): string {
  return env["BERTH_URL"] || DEFAULT_URL;
}

/** The token for the address of a Berth; undefined where there is none. Throws `config_invalid`. */
export function tokenFor(url: string, env: NodeJS.ProcessEnv = process.env): string | undefined {
  const { name, text } = given(env);
  if (text === undefined) return undefined;
  const token = text.trim();
  if (!/^[\x21-\x7e]+$/.test(token))
    throw new BerthError("config_invalid", `${name} must be one token and nothing else`);
  const address = URL.canParse(url) ? new URL(url) : undefined;
  if (!address || isSafe(address)) return token;
  const how = "use https, or a name of this machine";
  throw new BerthError("config_invalid", `${name} would be sent to ${address.origin} for everybody to read; ${how}`);
}

/** As `tokenFor`, for an arbitrary address: undefined unless it is at `BERTH_URL`. */
export function tokenIfOwn(url: string, env: NodeJS.ProcessEnv = process.env): string | undefined {
  return originOf(url) !== undefined && originOf(url) === originOf(ownUrl(env)) ? tokenFor(url, env) : undefined;
}

function given(env: NodeJS.ProcessEnv): { readonly name: string; readonly text: string | undefined } {
  const [text, file] = [env["BERTH_TOKEN"] || undefined, env["BERTH_TOKEN_FILE"] || undefined];
  if (file === undefined) return { name: "BERTH_TOKEN", text };
  if (text !== undefined) {
    throw new BerthError("config_invalid", "BERTH_TOKEN and BERTH_TOKEN_FILE both give the token; set one of them");
  }
  const name = `BERTH_TOKEN_FILE (${file})`;
  try {
    return { name, text: readFileSync(file, "utf8") };
  } catch (error) {
    throw new BerthError("config_invalid", `${name} cannot be read: ${(error as NodeJS.ErrnoException).code}`);
  }
}

function isSafe({ protocol, hostname }: URL): boolean {
  return protocol === "https:" || isLoopback(hostname.replace(/^\[|\]$/g, ""));
}

function originOf(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).origin : undefined;
}
