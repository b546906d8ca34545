/// Why there is no mount: one sentence for the user, which names the cause and the remedy.
package struct FuseError: Error, Sendable, Hashable, CustomStringConvertible {
    package let message: String
    package init(_ message: String) { self.message = message }
    package var description: String { message }
}
