import type { Request } from "express";
import type { TenantQuery } from "../audit/audit.ts";
import { FILTER_FIELDS, readFilter, type FilterTexts } from "../audit/filter-text.ts";

/** What the address of `/audit` and `/api/audit` asks for. Throws `invalid_params` with every problem at once. */
export function readAuditQuery({ query }: Pick<Request, "query">): TenantQuery {
  const { cursor } = query;
  return { ...readFilter(filterTexts({ query })), ...(typeof cursor === "string" && { cursor }) };
}

/** As they were written, for a form to show them again. */
export function filterTexts({ query }: Pick<Request, "query">): FilterTexts {
  const texts: FilterTexts = {};
  for (const field of FILTER_FIELDS) {
    const text = query[field];
    if (typeof text === "string") texts[field] = text;
  }
  return texts;
}
