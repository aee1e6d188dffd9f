import type { Audit } from "../../audit/audit.ts";
import { AUDIT_KINDS } from "../../audit/entry.ts";
import { OUTCOMES } from "../../audit/filter-text.ts";
import type { AuditRecord } from "../../audit/record.ts";
import { filterTexts, readAuditQuery } from "../audit-query.ts";
import type { RouteHandler } from "../routed.ts";
import { recordView, type RecordView } from "./audit-record.ts";
import type { Pages } from "./pages.ts";

export interface AuditPageOptions {
  readonly audit: Audit;
  readonly pages: Pages;
}

/** `GET /audit`: the tenant's audit records, fifty per page, and a form to filter them. */
export function auditPage({ audit, pages }: AuditPageOptions): RouteHandler {
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
}

/** Yields one view at a time, so that they are never all in memory. */
function* viewsOf(base: string, records: readonly AuditRecord[]): Generator<RecordView> {
  for (const record of records) yield recordView(base, record);
}

function addressOf(base: string, asked: readonly (readonly [string, string])[]): string {
  const query = new URLSearchParams(asked as [string, string][]).toString();
  return `${base}/audit${query && `?${query}`}`;
}
