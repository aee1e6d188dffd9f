import { serviceLog } from "../compose/service-log.ts";
import type { Config } from "../config.ts";
import type { Log } from "../lib/log.ts";
import { printable } from "../lib/printable.ts";
import { clock } from "./dev-view.ts";

/** The log of `berth dev`: lines for people; with `json`, everything that people would read is a line of JSON. */
export function devLog(config: Config, { json = false }: { readonly json?: boolean }): Log {
  if (!json) return serviceLog(config, undefined, lineForPeople);
  const log = serviceLog(config);
  console.error = (text: string) => log.info(text.trim());
  return log;
}

export function lineForPeople(line: string): string {
  const { level, time: _, msg, err, ...details } = JSON.parse(line) as Record<string, unknown>;
  const reason = (err as Error | undefined)?.message;
  const about = Object.entries({ ...(reason !== undefined && { reason }), ...details }).map(
    ([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  const text = `${String(msg)}${about.length > 0 ? ` (${about.join(", ")})` : ""}`;
  return `${clock()} ${LEVELS[Number(level)] ?? "info"}: ${printable(text)}\n`;
}

const LEVELS: Readonly<Record<number, string>> = { 40: "warning", 50: "error", 60: "error" };
