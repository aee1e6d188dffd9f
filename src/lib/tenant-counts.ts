/** The number of each tenant, and the sum of all. */
export class TenantCounts {
  readonly tenants = new Map<string, number>();
  all = 0;

  of(tenant: string): number {
    return this.tenants.get(tenant) ?? 0;
  }

  add(tenant: string, count: number): void {
    this.all += count;
    const own = this.of(tenant) + count;
    if (own === 0) this.tenants.delete(tenant);
    else this.tenants.set(tenant, own);
  }
}
