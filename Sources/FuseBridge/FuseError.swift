/// Why there is no mount: one sentence for people, which names the thing and the remedy.
package struct FuseError: Error, Sendable, Hashable, CustomStringConvertible {
    package let message: String
    package init(_ message: String) { self.message = message }
    package var description: String { message }
}
