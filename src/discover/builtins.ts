import { builtinModules } from "node:module";

/** Node's own modules that compute and touch nothing outside the guest's process. */
export const guestBuiltins: ReadonlySet<string> = new Set([
  "assert",
  "assert/strict",
  "async_hooks",
  "buffer",
  "crypto",
  "diagnostics_channel",
  "events",
  "path",
  "path/posix",
  "path/win32",
  "perf_hooks",
  "punycode",
  "querystring",
  "stream",
  "stream/consumers",
  "stream/promises",
  "stream/web",
  "string_decoder",
  "timers",
  "timers/promises",
  "url",
  "util",
  "util/types",
  "zlib",
]);

/** `node:fs` and `fs` → `fs`; undefined for what Node does not bring along. */
export function builtinName(specifier: string): string | undefined {
  if (specifier.startsWith("node:")) return specifier.slice("node:".length);
  return builtinModules.includes(specifier) || guestBuiltins.has(specifier) ? specifier : undefined;
}

/** Why a builtin is refused and what to use instead: one sentence. */
export function whyRefused(builtin: string): string {
  const family = builtin.split("/")[0]!;
  return reasons.find(([names]) => names.includes(family))?.[1] ?? otherwise;
}

const reasons: readonly (readonly [names: readonly string[], reason: string])[] = [
  [["fs"], "A definition sees no files: import data as a .json file of its own, or read it with context.variable()."],
  [
    ["net", "tls", "dgram", "dns", "http", "https", "http2", "_http_agent", "_http_client", "_http_server"],
    "A definition has no network of its own: use context.fetch(), which the host carries out within its rules.",
  ],
  [
    ["child_process", "cluster", "worker_threads"],
    "A definition is one process and cannot start others: write a shell definition (.sh) to run commands.",
  ],
  [
    ["process", "os", "tty", "readline", "repl"],
    "A definition has no terminal, arguments or environment: take parameters, or read context.variable() and context.secret().",
  ],
  [
    ["vm", "module", "v8", "inspector", "wasi", "sea", "test", "trace_events", "domain"],
    "It reaches into the runtime that isolates the definition: import the code that is needed as a file of its own.",
  ],
  [["sqlite"], "A definition sees no files: keep values in variables, and read them with context.variable()."],
];

const otherwise = "It is not among the modules that a definition may use.";
