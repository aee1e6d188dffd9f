import { valueBounds } from "../limits/value-bounds.ts";

/** Fits a part of a request body, a third longer in base64, with an address and headers. */
const REQUEST_UNITS_MAX = 128 * 1024;

/** The requests of guests to the host, with the maximum length of each in UTF-16 code units. */
export const hostOperations = {
  variable: REQUEST_UNITS_MAX,
  secret: REQUEST_UNITS_MAX,
  cid: REQUEST_UNITS_MAX,
  fetch: REQUEST_UNITS_MAX,
  fetchWrite: REQUEST_UNITS_MAX,
  fetchRead: REQUEST_UNITS_MAX,
  fetchAbort: REQUEST_UNITS_MAX,
  resourceUpdated: REQUEST_UNITS_MAX,
  offers: REQUEST_UNITS_MAX,
  hide: REQUEST_UNITS_MAX,
  show: REQUEST_UNITS_MAX,
  stateGet: REQUEST_UNITS_MAX,
  /** Each character of the value may be escaped. */
  get stateSet() {
    return REQUEST_UNITS_MAX + 2 * valueBounds.valueBytes;
  },
  stateDelete: REQUEST_UNITS_MAX,
  stateList: REQUEST_UNITS_MAX,
};

export type HostOperation = keyof typeof hostOperations;
