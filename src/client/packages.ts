/** The package store (docs/packages.md) as a typed client. Names and versions are escaped here. */
import type {
  Package,
  PackageContent,
  PackagePart,
  PackageUpload,
  PackageVersion,
} from "../shared/package.ts";
import type { Http } from "./http.ts";

export type PackagesClient = ReturnType<typeof packagesClient>;

export function packagesClient(http: Http) {
  const at = ({ user, name, version }: PackageVersion, rest = "") =>
    `/ws/v1/packages/${[user, name, version].map(encodeURIComponent).join("/")}${rest}`;
  return {
    /** All of them, in order of user, name and version. */
    async list(filter: { readonly user?: string | undefined; readonly name?: string | undefined }) {
      const packages: Package[] = [];
      for (let after: string | null | undefined; after !== null; ) {
        const query = new URLSearchParams();
        for (const [name, value] of Object.entries({ ...filter, after })) {
          if (value !== undefined) query.set(name, value);
        }
        type Page = { readonly packages: readonly Package[]; readonly next: string | null };
        const page: Page = await http.request("GET", `/ws/v1/packages?${query}`);
        packages.push(...page.packages);
        after = page.next;
      }
      return packages;
    },
    /** `version` may be `latest`. */
    get: (of: PackageVersion) => http.request<Package>("GET", at(of)),
    begin: (of: PackageVersion, content: PackageContent) =>
      http.request<PackageUpload>("POST", at(of, "/uploads"), content),
    putPart: (of: PackageVersion, upload: string, partNumber: number, bytes: Uint8Array) =>
      http.request<PackagePart>(
        "PUT",
        at(of, `/parts/${partNumber}?upload=${encodeURIComponent(upload)}`),
        bytes,
      ),
    complete: (
      of: PackageVersion,
      upload: string,
      content: PackageContent,
      parts: readonly PackagePart[],
    ) => http.request<Package>("POST", at(of, "/complete"), { ...content, upload, parts }),
    /** `force`: although a service uses it. */
    remove: (of: PackageVersion, force: boolean) =>
      http.request<Package>("DELETE", at(of, force ? "?force=true" : "")),
  };
}
