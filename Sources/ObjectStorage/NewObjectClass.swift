/// The storage class of a mount's new objects.
package struct NewObjectClass: Sendable, Hashable {
    /// As the store spells it; nil leaves the class to the bucket.
    package var name: String?
    /// Objects that are smaller, in bytes, get the class of the bucket.
    package var smallest: Int64

    package init(_ name: String? = nil, from smallest: Int64 = 0) { (self.name, self.smallest) = (name, smallest) }

    /// The class to name in a request that makes an object: the wanted one, or that of the mount. An object whose `size` is not
    /// known before its last byte is one in parts, none of which is smaller than `smallest`.
    package func name(_ wanted: String?, size: Int64?) -> String? {
        wanted ?? (size ?? .max < smallest ? nil : name)
    }
}
