import type { Request } from "express";
import type { TenantQuery } from "../../audit/audit.ts";
import { FILTER_FIELDS, parseFilter, type FilterTexts } from "../../audit/filter.ts";

/** Reads the query of `/audit` and `/api/audit`. Throws `invalid_params` with every problem at once. */
export function readAuditQuery({ query }: Pick<Request, "query">): TenantQuery {
  const { cursor } = query;
  return { ...parseFilter(filterTexts({ query })), ...(typeof cursor === "string" && { cursor }) };
}

/** The filters as they were written, for the form to show again. */
export function filterTexts({ query }: Pick<Request, "query">): FilterTexts {
  const texts: FilterTexts = {};
  for (const field of FILTER_FIELDS) {
    const text = query[field];
    if (typeof text === "string") texts[field] = text;
  }
  return texts;
}
