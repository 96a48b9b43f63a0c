/** Version of this program, as in package.json. */
export const VERSION = "0.1.0";
/** Version of the Service API (seed 001, "Version information"). */
export const SERVICE_API_VERSION = "1.0.0";
