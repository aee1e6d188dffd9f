/** A count per tenant, and their sum. */
export class TenantCounts {
  readonly tenants = new Map<string, number>();
  all = 0;

  of(tenant: string): number {
    return this.tenants.get(tenant) ?? 0;
  }

  add(tenant: string, count: number): void {
    this.all += count;
    const total = this.of(tenant) + count;
    if (total === 0) this.tenants.delete(tenant);
    else this.tenants.set(tenant, total);
  }
}
