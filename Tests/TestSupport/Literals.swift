package import ObjectStorage

/// Tests write keys as text.
extension ObjectKey: ExpressibleByStringLiteral {
    package init(stringLiteral value: String) { self.init(value) }
}
