/// The length of an object in a JSON listing. What is no length makes one entry useless, not the whole listing.
struct ListedLength: Decodable, Sendable {
    /// nil for what is no length.
    let bytes: Int64?

    init(from decoder: any Decoder) throws {
        let number = try? decoder.singleValueContainer().decode(Int64.self)
        bytes = number.flatMap { $0 >= 0 ? $0 : nil }
    }
}
