import { Router } from "express";
import { AUDIT_KINDS } from "../../audit/audit-entry.ts";
import type { Audit } from "../../audit/audit.ts";
import { OUTCOMES } from "../../audit/filter.ts";
import type { AuditRecord } from "../../audit/record.ts";
import { administering, mayAdminister } from "../../http/access/permit.ts";
import { addRoute } from "../../http/api/add-route.ts";
import type { FeatureRoutes, PageKit } from "../../http/feature-routes.ts";
import { authorText, bytesText, countOf, shortCid, timeView } from "../../http/pages/parts/text.ts";
import type { PageRoute, RouteHandler } from "../../http/routed.ts";
import { isObject, type Json } from "../../lib/json.ts";
import { filterTexts, readAuditQuery } from "./query.ts";

type SearchedAudit = Pick<Audit, "search" | "observer">;

export function auditRoutes(audit: SearchedAudit): FeatureRoutes {
  return {
    api: [{ path: "/audit", create: () => auditApi(audit) }],
    pages: [auditPage(audit)],
    sections: [{ section: "audit", label: "Audit", href: "/audit", isShown: mayAdminister }],
  };
}

/** `/api/audit`: the tenant's audit records, newest first, for its administrators. */
function auditApi(audit: SearchedAudit): Router {
  const get: RouteHandler = async (context) => {
    const { records, next } = await audit.search(context.tenant, readAuditQuery(context.request));
    context.response.setHeader("Cache-Control", "no-store");
    context.response.json({ records, ...(next !== undefined && { next }) });
  };

  const router = Router();
  addRoute(router, "/", { read: administering, write: administering }, { get });
  return router;
}

/** `GET /audit`: the tenant's audit records, fifty per page, and a form to filter them. */
const auditPage = (audit: SearchedAudit): PageRoute<PageKit> => ({
  path: "/audit",
  permit: administering,
  create({ pages }) {
    return async (context) => {
      const { request, response } = context;
      const { tenant, base } = context;
      const { records, next } = await audit.search(tenant, readAuditQuery(request));
      const texts = filterTexts(request);
      const asked = Object.entries(texts).filter(([, text]) => text !== "");
      const { kind = "", outcome = "", server = "", tool = "", principal = "", since = "", until = "" } = texts;
      response.setHeader("Cache-Control", "no-store");
      await pages.send(context, "audit", {
        title: "Audit",
        section: "audit",
        kinds: AUDIT_KINDS.map((value) => ({ value, chosen: value === kind })),
        outcomes: OUTCOMES.map((value) => ({ value, chosen: value === outcome })),
        fields: { server, tool, principal, since, until },
        isAsked: asked.length > 0,
        isLater: request.query["cursor"] !== undefined,
        first: addressOf(base, asked),
        next: next === undefined ? undefined : addressOf(base, [...asked, ["cursor", next]]),
        rows: records.length > 0 && (await pages.fragment("audit-record", viewsOf(base, records))),
        callsRecorded: audit.observer !== undefined,
      });
    };
  },
});

/** Yields one view at a time, so that they are never all in memory. */
function* viewsOf(base: string, records: readonly AuditRecord[]): Generator<object> {
  for (const record of records) yield recordView(base, record);
}

function addressOf(base: string, asked: readonly (readonly [string, string])[]): string {
  const query = new URLSearchParams(asked as [string, string][]).toString();
  return `${base}/audit${query && `?${query}`}`;
}

interface Detail {
  readonly label: string;
  readonly text: string;
  readonly href?: string;
}

const TONES: Readonly<Record<string, string>> = {
  ok: "good",
  error: "bad",
  invalid: "warn",
  refused: "bad",
  granted: "good",
  declined: "warn",
};

/** One record as a row of the page: when, what, who, how it ended, and details. */
function recordView(base: string, record: AuditRecord) {
  const { at, kind } = record;
  const outcome = textIn(record["outcome"]);
  const ms = Date.parse(at);
  return {
    // To the second: most minutes have more than one record.
    at: { iso: at, text: `${timeView(ms).exact.slice(0, 16)}:${at.slice(17, 19)} UTC` },
    kind,
    what: whatOf(record),
    who: authorText([textIn(record["by"]), textIn(record["principal"])].filter(Boolean).join(", ")),
    outcome,
    tone: TONES[outcome] ?? "",
    details: detailsOf(base, record),
  };
}

function whatOf(record: AuditRecord): string {
  const { removed, damaged, dropped, more } = record;
  if (typeof removed === "number") return `${countOf(removed, "record")}, no longer kept`;
  if (typeof damaged === "number") return `${countOf(damaged, "record")}, damaged`;
  if (typeof dropped === "number") return `${countOf(dropped, "call")} that there was no room to record`;
  if (typeof more === "number")
    return countOf(more, record.kind === "consent" ? "more consent record" : "more refused attempt");
  const { subject, action, name, token } = record;
  const server = textIn(record["server"]);
  switch (record.kind) {
    case "call":
    case "consent":
      return `${server}.${textIn(record["tool"])}`;
    case "edit":
    case "approval":
      return isObject(subject) ? `${textIn(subject["kind"])} ${textIn(subject["name"])}` : namesOf(record).join(", ");
    case "secret":
    case "token":
    case "state":
      return [textIn(action), server, textIn(name), textIn(token), textIn(record["key"])].filter(Boolean).join(" ");
    case "login":
      return textIn(record["path"]) || "signed in";
    case "retention":
      return `${countOf(numberIn(record["records"]), "record")} of ${textIn(record["of"])} removed`;
    default:
      return textIn(action);
  }
}

/** The first few names, in words. */
function namesOf({ names }: AuditRecord): string[] {
  const moved = (Array.isArray(names) ? names : []).map(objectIn);
  const shown = moved.slice(0, 3).map(({ kind, name }) => `${textIn(kind)} ${textIn(name)}`);
  return moved.length > 3 ? [...shown, `and ${moved.length - 3} more`] : shown;
}

function detailsOf(base: string, record: AuditRecord): Detail[] {
  const details: Detail[] = [];
  const add = (label: string, text: string, href?: string): void => {
    if (text !== "") details.push({ label, text, ...(href !== undefined && { href }) });
  };
  const addCid = (label: string, cid: Json | undefined): void => {
    if (typeof cid === "string") add(label, shortCid(cid), `${base}/cid/${encodeURIComponent(cid)}`);
  };
  addCid("release", record["release"]);
  if (typeof record["ms"] === "number") add("took", `${record["ms"]} ms`);
  for (const side of ["arguments", "result"]) {
    const { bytes, sha256 } = objectIn(record[side]);
    if (typeof bytes === "number") add(side, `${bytesText(bytes)}, SHA-256 ${textIn(sha256).slice(0, 12)}…`);
  }
  for (const moved of Array.isArray(record["names"]) ? record["names"].slice(0, NAMES_SHOWN) : []) {
    const { kind, name, to } = objectIn(moved);
    if (to === null) add(`${textIn(kind)} ${textIn(name)}`, "deleted");
    else addCid(`${textIn(kind)} ${textIn(name)}`, to);
  }
  if (record["breaking"] === true) add("breaking", "allowed");
  add("taken over by hold", takenText(record["autoApproved"]));
  for (const field of ["reason", "from", "requestId"]) add(LABELS[field] ?? field, textIn(record[field]));
  for (const field of ["grant", "limits", "hosts", "oauth", "suspended"]) {
    if (record[field] !== undefined) add(field, JSON.stringify(record[field]));
  }
  return details;
}

/** Names all that the policy of an upstream's entry took over. */
function takenText(taken: Json | undefined): string {
  const { items, more } = objectIn(taken);
  const all = (Array.isArray(items) ? items : []).map(objectIn);
  const count = all.length + numberIn(more);
  const shown = all
    .slice(0, NAMES_SHOWN)
    .map(({ subject, name }) => (subject === "server" ? "the server itself" : `${textIn(subject)} ${textIn(name)}`));
  return [...shown, ...(count > shown.length ? [`and ${count - shown.length} more`] : [])].join(", ");
}

const NAMES_SHOWN = 20;
const LABELS: Readonly<Record<string, string>> = { requestId: "request" };

function textIn(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

function numberIn(value: Json | undefined): number {
  return typeof value === "number" ? value : 0;
}

function objectIn(value: Json | undefined): Readonly<Record<string, Json>> {
  return isObject(value) ? value : {};
}
