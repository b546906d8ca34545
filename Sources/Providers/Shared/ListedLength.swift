/// The length of an object in a JSON listing. An invalid length invalidates its entry, not the whole listing.
struct ListedLength: Decodable, Sendable {
    /// nil for an invalid length.
    let bytes: Int64?

    init(from decoder: any Decoder) throws {
        let number = try? decoder.singleValueContainer().decode(Int64.self)
        bytes = number.flatMap { $0 >= 0 ? $0 : nil }
    }
}
