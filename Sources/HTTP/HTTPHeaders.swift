/// Header fields in the order they were added; names are compared without case (RFC 9110 section 5.1).
package struct HTTPHeaders: Sendable, Hashable {
    package struct Field: Sendable, Hashable {
        package var name: String
        package var value: String

        package init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }
    }

    package private(set) var fields: [Field] = []

    package init() {}

    package init(_ fields: [(String, String)]) { self.fields = fields.map { Field($0.0, $0.1) } }

    /// The first value of `name`. Setting replaces every field of that name, nil removes them.
    package subscript(_ name: String) -> String? {
        get { fields.first { Self.isSame($0.name, name) }?.value }
        set {
            fields.removeAll { Self.isSame($0.name, name) }
            if let newValue { fields.append(Field(name, newValue)) }
        }
    }

    /// Adds a field and keeps those of the same name.
    package mutating func add(_ name: String, _ value: String) { fields.append(Field(name, value)) }

    /// Every value of `name`, in order.
    package func values(_ name: String) -> [String] {
        fields.filter { Self.isSame($0.name, name) }.map(\.value)
    }

    private static func isSame(_ left: String, _ right: String) -> Bool {
        left.utf8.count == right.utf8.count && zip(left.utf8, right.utf8).allSatisfy { lowered($0) == lowered($1) }
    }

    private static func lowered(_ byte: UInt8) -> UInt8 { (65...90).contains(byte) ? byte + 32 : byte }
}
