import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseFolders, type DeclaredFolder } from "./folders/folders.ts";
import { DATA_FOLDER } from "./lib/data-folder.ts";
import { BerthError } from "./lib/errors.ts";
import { DEFAULT_TENANT, isTenantName } from "./lib/tenant-name.ts";
import {
  defaultLimits,
  limitSettings,
  limitsFrom,
  limitVariable,
  type Limits,
  type LimitSetting,
} from "./limits/limits.ts";
import { withoutServiceLinks } from "./service-links.ts";

/** The root of the package: the folder with `boot/`, `reference_templates/` and `dist/`. */
export const packageRoot = fileURLToPath(new URL("../../", import.meta.url));

/** Defined if Berth's commands are bundled into one file without a package next to it. */
declare const BERTH_VERSION: string | undefined;

export function packageVersion(): string {
  if (typeof BERTH_VERSION === "string") return BERTH_VERSION;
  const { version } = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8")) as { version: string };
  return version;
}

/** npm refuses to publish a package with `private`, so the field says whether Berth is published. */
export function isPublished(): boolean {
  const manifest = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8")) as { private?: boolean };
  return manifest.private !== true;
}

export interface Config {
  readonly host: string;
  /** 0 lets the system choose. */
  readonly port: number;
  /** Folder of the store, unless `database` is set. */
  readonly dataDir: string;
  /** Connection URI of the Postgres database with the store; a secret. Undefined for SQLite in the data folder. */
  readonly database: string | undefined;
  /** The file from which it was read. */
  readonly databaseFile: string | undefined;
  /** Address at which nodes on other machines reach this one, if any; port 0 stands for any port. */
  readonly nodeAddress: { readonly host: string; readonly port: number } | undefined;
  /** Folder of the boot image. */
  readonly imageDir: string;
  readonly image: "default" | "readonly";
  /** `auto` selects `sandboxed` if the probe succeeds, else `trusted` for the default tenant. */
  readonly guests: "auto" | "sandboxed" | "trusted";
  /** Host names that a request may carry in addition to loopback ones; for a service behind a proxy. */
  readonly allowedHosts: readonly string[];
  /** Origins, in addition to Berth's own, whose pages may call MCP endpoints, in the form that browsers send. */
  readonly allowedOrigins: readonly string[];
  /** Scheme and host at which clients reach Berth through a proxy, such as `https://mcp.example.com`. */
  readonly publicUrl: string | undefined;
  /** The path in front of all of Berth's at that address, such as `/berth`; empty for none. */
  readonly publicPath: string;
  /** `required`: requests without a token are refused. `open`: no authentication, for local use only. */
  readonly access: "open" | "required";
  /** The operator's own token, with all rights to all tenants; a secret. */
  readonly adminToken: string | undefined;
  /** The issuers whose access tokens the tenant `default` accepts, unless it has its own settings; not parsed yet. */
  readonly oauth: {
    readonly issuer: string | undefined;
    readonly audience: string | undefined;
    readonly scopes: string | undefined;
    /** Addresses that are not public but allowed for issuers of tenants. */
    readonly privateIssuers: string | undefined;
  };
  /** Keys that seal secrets, and state that clients carry; by default, Berth generates its own in the data folder. */
  readonly secretKeys: KeySource;
  /** The folder of secrets that are files. */
  readonly secretsDir: string | undefined;
  readonly sealKeys: KeySource;
  /** Hosts of private networks that servers may reach if their entries list them. */
  readonly privateHosts: string | undefined;
  /** Tenants other than `default` whose servers may start upstream programs, outside the sandbox. */
  readonly tenantUpstreams: "all" | readonly string[];
  /** Tenants other than `default` that may have npm packages. */
  readonly tenantPackages: "all" | readonly string[];
  /** Folders of the machine that entries may name. */
  readonly folders: readonly DeclaredFolder[];
  /** The registry from which tenants' npm packages come. */
  readonly registry: RegistryConfig;
  /** `all` also records calls in the audit log; `changes` only changes and sign-ins. */
  readonly audit: "all" | "changes";
  /** Callers without a token may also start upstream programs. */
  readonly upstreamPrograms: boolean;
  /** Callers receive the file, line and column at which a function threw. */
  readonly errorLocations: boolean;
  readonly logLevel: string;
  /** Processes that serve at one address, each a complete Berth; 0 for a single one without a supervisor. */
  readonly workers: number;
  /** Offers the server `explore`, which starts any program that its caller names. */
  readonly explore: boolean;
  readonly limits: Limits;
}

interface KeySource {
  readonly file: string | undefined;
  /** A secret. */
  readonly text: string | undefined;
}

export interface RegistryConfig {
  /** Its address, with a trailing slash. */
  readonly url: string;
  /** Sent only to the registry; a secret. */
  readonly token: string | undefined;
  /** The file from which it was read. */
  readonly tokenFile?: string | undefined;
  /** Other origins to which it may redirect for tarballs. */
  readonly tarballOrigins: readonly string[];
}

/** The name of the server `explore`. */
export const EXPLORE = "explore";

const choices = {
  image: ["default", "readonly"],
  guests: ["auto", "sandboxed", "trusted"],
  explore: ["off", "on"],
  upstreamPrograms: ["off", "on"],
  errorLocations: ["off", "on"],
  logLevel: ["trace", "debug", "info", "warn", "error", "fatal", "silent"],
} as const;

/** Reads the configuration. Throws `config_invalid` with all problems. */
export function readConfig(environment: NodeJS.ProcessEnv, overrides: Partial<Config> = {}): Config {
  const env = withoutServiceLinks(environment);
  const problems: string[] = [];

  const choice = <K extends keyof typeof choices>(key: K, variable: string): (typeof choices)[K][number] => {
    const allowed: readonly string[] = choices[key];
    const value = env[variable] ?? allowed[key === "logLevel" ? 2 : 0];
    if (!allowed.includes(value!)) problems.push(`${variable} must be one of ${allowed.join(", ")}, not "${value}"`);
    return value as (typeof choices)[K][number];
  };

  const wholeNumber = (variable: string, fallback: number, max = Number.MAX_SAFE_INTEGER): number => {
    const text = env[variable];
    if (text === undefined || text === "") return fallback;
    const value = Number(text);
    if (!/^[0-9]+$/.test(text) || value > max)
      problems.push(`${variable} must be a whole number from 0 to ${max}, not "${text}"`);
    return value;
  };

  const adminToken = (): string | undefined => {
    const token = readSecret(env, "BERTH_ADMIN_TOKEN", "operator's token", problems) || undefined;
    if (token !== undefined && !/^[\x21-\x7e]{16,}$/.test(token)) {
      problems.push("BERTH_ADMIN_TOKEN must have at least 16 characters, printable ASCII without spaces");
    }
    return token;
  };

  const host = env["BERTH_HOST"] || "127.0.0.1";
  const access = (): Config["access"] => {
    const value = env["BERTH_ACCESS"] || (isLoopback(overrides.host ?? host) ? "open" : "required");
    if (value === "open" || value === "required") return value;
    problems.push(`BERTH_ACCESS must be open or required, not "${value}"`);
    return "required";
  };

  const accessMode = overrides.access ?? access();
  const audit = (): Config["audit"] => {
    // If no token is required, the record of a call could not say who called.
    const value = env["BERTH_AUDIT"] || (accessMode === "required" ? "all" : "changes");
    if (value === "all" || value === "changes") return value;
    problems.push(`BERTH_AUDIT must be all or changes, not "${value}"`);
    return "all";
  };

  const allowedOrigins = (): string[] => {
    const origins = (env["BERTH_ALLOWED_ORIGINS"] ?? "").split(",").map((text) => text.trim());
    const isOrigin = (text: string): boolean => URL.canParse(text) && new URL(text).origin === text;
    const wrong = origins.find((text) => text !== "" && !isOrigin(text));
    if (wrong !== undefined) {
      problems.push(`BERTH_ALLOWED_ORIGINS must list origins, such as http://localhost:6274, not "${wrong}"`);
    }
    return origins.filter(Boolean);
  };

  const publicAddress = (): Pick<Config, "publicUrl" | "publicPath"> => {
    const text = env["BERTH_PUBLIC_URL"] || undefined;
    if (text === undefined) return { publicUrl: undefined, publicPath: "" };
    const url = URL.canParse(text) ? new URL(text) : undefined;
    const [, path = ""] = PUBLIC_PATH.exec(url?.pathname ?? "") ?? [];
    if (url && /^https?:$/.test(url.protocol) && [`${url.origin}${path}`, `${url.origin}${path}/`].includes(url.href)) {
      return { publicUrl: url.origin, publicPath: path };
    }
    problems.push(
      "BERTH_PUBLIC_URL must be a scheme, a host and at most a path that is none of Berth's own, such as " +
        `https://mcp.example.com or https://example.com/berth, not "${text}"`,
    );
    return { publicUrl: undefined, publicPath: "" };
  };

  const nodeAddress = (): Config["nodeAddress"] => {
    const text = env["BERTH_NODE_ADDRESS"] || undefined;
    if (text === undefined) return undefined;
    const [, name, port = "0"] = /^(\[[0-9a-f:]+\]|[^\s:/@]+)(?::([0-9]{1,5}))?$/i.exec(text) ?? [];
    if (name !== undefined && Number(port) <= 65_535) return { host: name.replace(/^\[|\]$/g, ""), port: Number(port) };
    problems.push("BERTH_NODE_ADDRESS must be this machine's address for other nodes: 10.0.0.5, or 10.0.0.5:7430");
    return undefined;
  };

  const keys = (variable: string): KeySource => readSource(env, variable, "key", problems);

  const tenants = (variable: string): "all" | readonly string[] => {
    const text = env[variable] || "off";
    if (text === "off") return [];
    if (text === "on") return "all";
    const names = text.split(",").map((name) => name.trim());
    const wrong = names.find((name) => !isTenantName(name));
    if (wrong !== undefined) {
      problems.push(`${variable} must be off, on or names of tenants separated by commas, not "${text}"`);
    }
    return names;
  };

  const limits = limitsFrom(
    Object.fromEntries(
      limitSettings.map((name) => {
        const max = name.endsWith("Ms") && !UNTIMED.has(name) ? TIMER_MS_MAX : undefined;
        return [name, wholeNumber(limitVariable(name), defaultLimits[name], max)];
      }),
    ),
  );

  const config: Config = {
    host,
    port: wholeNumber("BERTH_PORT", 7420, 65_535),
    dataDir: env["BERTH_DATA"] || DATA_FOLDER,
    database: readDatabase(env, problems),
    databaseFile: env["BERTH_DATABASE_FILE"] || undefined,
    nodeAddress: nodeAddress(),
    imageDir: env["BERTH_IMAGE_DIR"] || join(packageRoot, "boot"),
    image: choice("image", "BERTH_IMAGE"),
    guests: choice("guests", "BERTH_GUESTS"),
    allowedHosts: (env["BERTH_ALLOWED_HOSTS"] ?? "")
      .split(",")
      .map((host) => host.trim())
      .filter(Boolean),
    allowedOrigins: allowedOrigins(),
    ...publicAddress(),
    access: accessMode,
    adminToken: adminToken(),
    oauth: {
      issuer: env["BERTH_OAUTH_ISSUER"] || undefined,
      audience: env["BERTH_OAUTH_AUDIENCE"] || undefined,
      scopes: env["BERTH_OAUTH_SCOPES"] || undefined,
      privateIssuers: env["BERTH_OAUTH_PRIVATE_ISSUERS"] || undefined,
    },
    secretKeys: keys("BERTH_SECRET_KEY"),
    secretsDir: env["BERTH_SECRETS_DIR"] || undefined,
    sealKeys: keys("BERTH_SEAL_KEY"),
    privateHosts: env["BERTH_PRIVATE_HOSTS"] || undefined,
    tenantUpstreams: tenants("BERTH_TENANT_UPSTREAMS"),
    tenantPackages: tenants("BERTH_TENANT_PACKAGES"),
    folders: parseFolders(env["BERTH_FOLDERS"], problems),
    registry: readRegistry(env, problems),
    audit: audit(),
    logLevel: choice("logLevel", "BERTH_LOG"),
    workers: wholeNumber("BERTH_WORKERS", 0, WORKERS_MAX),
    explore: choice("explore", "BERTH_EXPLORE") === "on",
    upstreamPrograms: choice("upstreamPrograms", "BERTH_UPSTREAM_PROGRAMS") === "on",
    errorLocations: choice("errorLocations", "BERTH_ERROR_LOCATIONS") === "on",
    limits,
    ...overrides,
  };

  if (!isLoopback(config.host) && config.access === "open") {
    problems.push(
      `the host ${config.host} is reachable from other machines, so BERTH_ACCESS=open would let anyone in; ` +
        "leave BERTH_ACCESS out, or bind 127.0.0.1",
    );
  }
  if (config.explore) problems.push(...exploreProblems(config));
  if (problems.length > 0) throw new BerthError("config_invalid", problems.join("; "));
  return config;
}

/** More than the CPUs of most machines; with more, each one's share of the machine's limits would be too small. */
const WORKERS_MAX = 32;
/** A request without it, from a proxy that removes it, must not be taken for one with it. */
const PUBLIC_PATH =
  /^((?!\/(?:api|assets|audit|content|healthz|mcp|metrics|packages|readyz|secrets|servers|sign-in|sign-out|state|t|tenant|variables)(?:\/|$))(?:\/[\w.~-]+)*)\/?$/;

/** The longest timer, 24.8 days: a longer one fires immediately. */
const TIMER_MS_MAX = 2 ** 31 - 1;
/** Durations for which no timer is set. */
const UNTIMED: ReadonlySet<string> = new Set<LimitSetting>([
  "callMs",
  "databaseOutageMs",
  "guestIdleMs",
  "sessionMs",
  "taskTtlMs",
]);

/** Callers of the server `explore` run programs as the user that Berth runs as. */
function exploreProblems({ host, allowedHosts, publicUrl, image, workers }: Config): string[] {
  const refused = "BERTH_EXPLORE=on lets callers start programs on this machine, so it is for local callers only: ";
  const problems = [];
  if (!isLoopback(host)) problems.push(`${refused}bind 127.0.0.1, not ${host}`);
  if (allowedHosts.length > 0) problems.push(`${refused}it cannot be combined with BERTH_ALLOWED_HOSTS`);
  if (publicUrl !== undefined) problems.push(`${refused}it cannot be combined with BERTH_PUBLIC_URL`);
  if (image === "readonly") problems.push("BERTH_EXPLORE=on saves profiles, which a read-only boot does not allow");
  if (workers > 0) {
    problems.push("BERTH_EXPLORE=on connects upstreams to one process, so it cannot be combined with BERTH_WORKERS");
  }
  return problems;
}

/** True if servers of a tenant may start programs at all. */
export function mayStartPrograms({ tenantUpstreams }: Pick<Config, "tenantUpstreams">, tenant: string): boolean {
  return tenant === DEFAULT_TENANT || tenantUpstreams === "all" || tenantUpstreams.includes(tenant);
}

/** True if a tenant may have npm packages at all. */
export function mayHavePackages({ tenantPackages }: Pick<Config, "tenantPackages">, tenant: string): boolean {
  return tenant === DEFAULT_TENANT || tenantPackages === "all" || tenantPackages.includes(tenant);
}

function readRegistry(env: NodeJS.ProcessEnv, problems: string[]): RegistryConfig {
  const text = env["BERTH_REGISTRY"] || "https://registry.npmjs.org/";
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.search !== "" || url.hash !== "") {
    problems.push("BERTH_REGISTRY must be the address of a registry, such as https://registry.npmjs.org/");
  } else if (url.username !== "" || url.password !== "") {
    problems.push("BERTH_REGISTRY must not contain a password: set BERTH_REGISTRY_TOKEN or BERTH_REGISTRY_TOKEN_FILE");
  }
  const origins = (env["BERTH_REGISTRY_TARBALL_ORIGINS"] ?? "")
    .split(",")
    .map((origin) => origin.trim())
    .filter(Boolean);
  const wrong = origins.find(
    (origin) => !/^https?:/.test(origin) || !URL.canParse(origin) || new URL(origin).origin !== origin,
  );
  if (wrong !== undefined) {
    problems.push(`BERTH_REGISTRY_TARBALL_ORIGINS must list origins, such as https://cdn.example.com, not "${wrong}"`);
  }
  const href = url?.href ?? "";
  return {
    url: href.endsWith("/") ? href : `${href}/`,
    token: registryToken(env, problems),
    tokenFile: env["BERTH_REGISTRY_TOKEN_FILE"] || undefined,
    tarballOrigins: origins,
  };
}

function registryToken(env: NodeJS.ProcessEnv, problems: string[]): string | undefined {
  const token = readSecret(env, "BERTH_REGISTRY_TOKEN", "token", problems);
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) {
    problems.push("The token of the registry must be printable ASCII without spaces");
    return undefined;
  }
  return token;
}

/** No problem quotes the value: it may contain a password. */
function readDatabase(env: NodeJS.ProcessEnv, problems: string[]): string | undefined {
  const url = readSecret(env, "BERTH_DATABASE", "database", problems);
  if (url !== undefined && !(/^postgres(?:ql)?:\/\/[\x21-\x7e]+$/.test(url) && URL.canParse(url))) {
    problems.push("BERTH_DATABASE must be the address of a Postgres: postgres://user:password@host:5432/name");
  }
  return url;
}

/** A secret setting, from its variable or the file that `…_FILE` names. */
function readSecret(env: NodeJS.ProcessEnv, variable: string, label: string, problems: string[]): string | undefined {
  const { file, text } = readSource(env, variable, label, problems);
  if (text !== undefined || file === undefined) return text;
  try {
    return readFileSync(file, "utf8").trim();
  } catch (error) {
    const { code = "no reason given" } = error as NodeJS.ErrnoException;
    problems.push(`${variable}_FILE cannot be read (${code})`);
    return undefined;
  }
}

function readSource(env: NodeJS.ProcessEnv, variable: string, label: string, problems: string[]): KeySource {
  const [file, text] = [env[`${variable}_FILE`] || undefined, env[variable] || undefined];
  if (file !== undefined && text !== undefined) {
    problems.push(`${variable}_FILE and ${variable} both set the ${label}; use only one of them`);
  }
  return { file, text };
}

export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host);
}
