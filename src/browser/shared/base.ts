/** The path prefix of the tenant of this page. */
export const tenantBase = document.documentElement.dataset["base"] ?? "";
