// Who gives the order, for what is recorded with it.

import { hostname, userInfo } from 'node:os'

export function operator(): string {
  try {
    return `${userInfo().username}@${hostname()}`
  } catch {
    // A container may run as a user that has no name.
    return `user ${process.getuid?.() ?? 'unknown'}@${hostname()}`
  }
}
