/**
 * The rows of a cluster's security: its keys, its claim, its join tokens. Each method is one
 * synchronous statement, so that whoever decides by one of them cannot be overtaken.
 */

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS security_keys (
    id INTEGER PRIMARY KEY, kid TEXT NOT NULL, private_jwk TEXT NOT NULL, created_ms INTEGER NOT NULL
  );
  CREATE TABLE IF NOT EXISTS security_claim (
    id INTEGER PRIMARY KEY CHECK (id = 1), code_hash TEXT NOT NULL, claimed_by TEXT, claimed_ms INTEGER
  );
  CREATE TABLE IF NOT EXISTS security_join_tokens (
    jti TEXT PRIMARY KEY, uses_left INTEGER NOT NULL, expires_ms INTEGER NOT NULL
  ) WITHOUT ROWID;
`;

/** `private_jwk` is JSON text. */
export type KeyRow = { kid: string; private_jwk: string };
/** `claimed_by` is null while the cluster belongs to nobody. */
export type ClaimRow = { code_hash: string; claimed_by: string | null };

export class SecurityStore {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(SCHEMA);
  }

  /** Oldest first. */
  keys(): readonly KeyRow[] {
    return this.#sql
      .exec<KeyRow>("SELECT kid, private_jwk FROM security_keys ORDER BY id")
      .toArray();
  }

  newestKey(): KeyRow | undefined {
    return this.#sql
      .exec<KeyRow>("SELECT kid, private_jwk FROM security_keys ORDER BY id DESC LIMIT 1")
      .toArray()[0];
  }

  insertKey({ kid, private_jwk }: KeyRow, nowMs: number): void {
    this.#sql.exec(
      "INSERT INTO security_keys (kid, private_jwk, created_ms) VALUES (?, ?, ?)",
      kid,
      private_jwk,
      nowMs,
    );
  }

  findClaim(): ClaimRow | undefined {
    return this.#sql
      .exec<ClaimRow>("SELECT code_hash, claimed_by FROM security_claim WHERE id = 1")
      .toArray()[0];
  }

  insertClaimCode(codeHash: string): void {
    this.#sql.exec("INSERT INTO security_claim (id, code_hash) VALUES (1, ?)", codeHash);
  }

  /** False when the cluster is claimed already, with this very code. */
  claim(codeHash: string, user: string, nowMs: number): boolean {
    const claimed = this.#sql.exec(
      `INSERT INTO security_claim (id, code_hash, claimed_by, claimed_ms) VALUES (1, ?1, ?2, ?3)
       ON CONFLICT (id) DO UPDATE SET code_hash = ?1, claimed_by = ?2, claimed_ms = ?3
       WHERE claimed_by IS NULL OR code_hash <> ?1 RETURNING id`,
      codeHash,
      user,
      nowMs,
    );
    return claimed.toArray().length > 0;
  }

  insertJoinToken(jti: string, uses: number, expiresMs: number): void {
    this.#sql.exec(
      "INSERT INTO security_join_tokens (jti, uses_left, expires_ms) VALUES (?, ?, ?)",
      jti,
      uses,
      expiresMs,
    );
  }

  /** Takes one use away; false when none is left or the token has expired. */
  useJoinToken(jti: string, nowMs: number): boolean {
    const used = this.#sql.exec(
      `UPDATE security_join_tokens SET uses_left = uses_left - 1
       WHERE jti = ? AND uses_left > 0 AND expires_ms > ? RETURNING jti`,
      jti,
      nowMs,
    );
    return used.toArray().length > 0;
  }

  deleteExpiredJoinTokens(nowMs: number): void {
    this.#sql.exec("DELETE FROM security_join_tokens WHERE expires_ms <= ?", nowMs);
  }
}
