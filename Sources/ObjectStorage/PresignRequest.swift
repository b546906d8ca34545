/// The request that a URL without credentials is to allow.
package struct PresignRequest: Sendable, Hashable {
    /// The request that the URL allows.
    package enum Use: Sendable, Hashable { case get, put }

    package var key: ObjectKey
    package var lifetime: Duration
    package var use: Use
    /// Headers that the answer has instead of the object's own.
    package var overrides: [StoredHeader: String] = [:]
    /// How the store transforms the object before it answers, such as to a smaller picture, in that store's own syntax.
    package var process: String?

    package init(_ key: ObjectKey, lifetime: Duration, use: Use = .get) {
        (self.key, self.lifetime, self.use) = (key, lifetime, use)
    }
}
