/** What stands before every path of the tenant whose page this is. */
export const tenantBase = document.documentElement.dataset["base"] ?? "";
